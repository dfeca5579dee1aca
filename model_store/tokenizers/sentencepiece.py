"""Read a SentencePiece model: its pieces, and how texts are prepared for them.

The file is a protocol buffer (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from model_store.errors import UnsupportedCheckpoint
from model_store.files import read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces."""
ALGORITHMS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
FIXED = {1: 8, 5: 4}
"""Bytes of wire types of fixed length."""


class Piece(NamedTuple):
    """A vocabulary entry; its index is its id."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePiece:
    """What a model file says about tokens."""

    pieces: tuple[Piece, ...]
    algorithm: str
    """unigram or bpe."""
    unknown: int
    """The id of the unknown piece."""
    byte_fallback: bool
    charsmap: bytes
    """Replacements of characters, in SentencePiece's format; empty: none."""
    dummy_prefix: bool
    """Whether a space is prepended to texts."""
    single_spaces: bool
    """Whether runs of spaces become one, and are stripped at the ends."""


def read(path: Path) -> SentencePiece:
    """Read the model in the file at `path`."""
    try:
        return parse(read_bytes(path))
    except (ValueError, UnicodeDecodeError) as error:
        raise UnsupportedCheckpoint(
            f"{path} is not a usable SentencePiece model: {error}; download it again, or save tokenizer.json"
        ) from error


def parse(data: bytes) -> SentencePiece:
    """Parse a model; ValueError says what is wrong."""
    pieces: list[Piece] = []
    trainer: dict[int, int | bytes] | None = None
    normalizer: dict[int, int | bytes] | None = None
    for number, value in fields(data):
        match number, value:
            case 1, bytes():
                pieces.append(piece(value))
            case 2, bytes():
                trainer = dict(fields(value))
            case 3, bytes():
                normalizer = dict(fields(value))
            case 5, bytes() if dict(fields(value)).get(2):
                raise ValueError("it changes text when decoding (denormalizer_spec), which is not supported")
    if trainer is None or normalizer is None:
        raise ValueError("it ends before its settings")
    algorithm = ALGORITHMS.get(number_of(trainer, 3, 1), "of an unknown kind")
    if algorithm not in ("unigram", "bpe"):
        raise ValueError(f"its pieces are {algorithm}; only unigram and bpe are supported")
    if number_of(trainer, 24, 0):
        raise ValueError("it puts spaces after words (treat_whitespace_as_suffix), which is not supported")
    if not number_of(normalizer, 5, 1):
        raise ValueError("it leaves spaces as they are (escape_whitespaces), which is not supported")
    charsmap = normalizer.get(2, b"")
    check_charsmap(charsmap)
    assert isinstance(charsmap, bytes)
    return SentencePiece(
        tuple(pieces),
        algorithm,
        unknown_of(pieces),
        bool(number_of(trainer, 35, 0)),
        charsmap,
        bool(number_of(normalizer, 3, 1)),
        bool(number_of(normalizer, 4, 1)),
    )


def piece(data: bytes) -> Piece:
    """One piece of the vocabulary."""
    text, score, kind = "", 0.0, NORMAL
    for number, value in fields(data):
        match number, value:
            case 1, bytes():
                text = value.decode()
            case 2, bytes() if len(value) == 4:
                score = struct.unpack("<f", value)[0]
            case 3, int() if NORMAL <= value <= BYTE:
                kind = value
            case _:
                raise ValueError(f"a piece has an unknown field {number}")
    if not math.isfinite(score):
        raise ValueError(f"the piece {text!r} has the score {score}")
    return Piece(text, score, kind)


def unknown_of(pieces: list[Piece]) -> int:
    """The id of the unknown piece, if the pieces are a vocabulary."""
    if not pieces:
        raise ValueError("it has no pieces")
    texts = {one.text for one in pieces}
    if len(texts) != len(pieces) or "" in texts:
        raise ValueError("a piece is empty or there twice")
    unknown = [place for place, one in enumerate(pieces) if one.kind == UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"it has {len(unknown)} pieces for what is unknown, and should have one")
    return unknown[0]


def check_charsmap(charsmap: int | bytes) -> None:
    """Raise for an invalid replacement table: its length, a trie of 4-byte units, then texts that end with 0.

    The trie is Darts-clone's: wherever a unit leads, all 256 units of that block must exist.
    """
    if isinstance(charsmap, int):
        raise ValueError("its replacement table (precompiled_charsmap) is a number")
    if not charsmap:
        return
    import numpy as np  # listings of models must not import it

    length = int.from_bytes(charsmap[:4], "little")
    if length % 4 or not 0 < length <= len(charsmap) - 4:
        raise ValueError("its replacement table (precompiled_charsmap) is incomplete")
    units = np.frombuffer(charsmap, "<u4", length // 4, 4).astype(np.int64)
    texts = charsmap[4 + length :]
    texts.decode()
    label = units & (1 << 31 | 0xFF)
    inner = (label > 0) & (label < 256)
    inner[0] = True  # the root
    places = np.flatnonzero(inner) ^ (units[inner] >> 10 << ((units[inner] & 1 << 9) >> 6))
    if (places | 0xFF).max() >= len(units):
        raise ValueError("its replacement table (precompiled_charsmap) leads out of itself")
    values = units[places[units[inner] >> 8 & 1 == 1]] & 0x7FFFFFFF
    if any(value >= len(texts) or texts[value] >> 6 == 2 for value in values.tolist()):  # within a character
        raise ValueError("its replacement table (precompiled_charsmap) names texts that are not there")


def number_of(message: dict[int, int | bytes], number: int, default: int) -> int:
    """An integer or boolean field of a message."""
    value = message.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"field {number} should be a number")
    return value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an int, or its bytes."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = varint(data, place)
            yield number, value
            continue
        if wire == 2:
            length, place = varint(data, place)
        elif wire in FIXED:
            length = FIXED[wire]
        else:
            raise ValueError(f"byte {place} is not of a protocol buffer")
        if place + length > len(data):
            raise ValueError(f"it ends within a field that begins at byte {place}")
        yield number, data[place : place + length]
        place += length


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A varint, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends within a number")
        byte = data[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
    raise ValueError(f"the number before byte {place} is too long")
