"""Texts of some files, searchable at once for words and for the text before a cursor."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
LAST_WORD = re.compile(rb"([A-Za-z0-9_\x80-\xff]+)([^A-Za-z0-9_\x80-\xff]+[A-Za-z0-9_\x80-\xff]*)\Z")
"""The last whole word, and what follows it up to the cursor, with the beginning of another word."""
LAST_RUNS = re.compile(rb"([A-Za-z0-9_\x80-\xff]+)([^A-Za-z0-9_\x80-\xff]+)\Z")
"""The word before that, and what is between the two."""
IN_WORD = np.array([bool(WORD.match(bytes([byte]))) for byte in range(256)])  # (256,)
MIX = 0x9E3779B1
"""Spreads sums over all bits (Knuth's multiplicative hashing)."""
WEIGHTS = np.cumprod(np.full(64, MIX, np.uint32), dtype=np.uint32)  # (64,)
"""Weights of a word's bytes by position: powers of an odd number."""


class Segment:
    """Concatenated files with a sorted index of their words' ends.

    A word's key has 32 bits: the upper half hashes the word, the lower half what precedes it. So a range of keys is a
    word's occurrences, and a smaller range those after the same word. Equal keys may be different words.
    """

    def __init__(self, files: Sequence[tuple[Path, bytes]]):
        """Takes paths and UTF-8 texts, which are separated by zero bytes, as no text has."""
        self.paths = [path for path, _ in files]
        self.live = np.ones(len(files), bool)
        self.text = b"\0" + b"\0".join(text for _, text in files) + b"\0"
        self.starts = np.cumsum([1, *(len(text) + 1 for _, text in files)], dtype=np.uint32)[:-1]
        self.keys, self.ends = sort_words(self.data)

    @cached_property
    def data(self) -> np.ndarray:
        """The text's bytes (n,)."""
        return np.frombuffer(self.text, np.uint8)

    @property
    def size(self) -> int:
        """Its bytes in memory."""
        return len(self.text) + self.keys.nbytes + self.ends.nbytes

    def read(self, number: int) -> bytes:
        """The text of a file."""
        start = int(self.starts[number])
        return self.text[start : self.text.index(b"\0", start)]

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """The numbers of the files that places are in (n,)."""
        return np.searchsorted(self.starts, places, "right") - 1

    def find(self, low: int, high: int, rest: bytes) -> np.ndarray:
        """Where words with keys in a range end (n,), followed by `rest`, in files that count."""
        ends = self.follow(self.ends_of(low, high), rest)
        living: np.ndarray = ends[self.live[self.numbers(ends)]]
        return living

    def ends_of(self, low: int, high: int) -> np.ndarray:
        """Where words with keys in a range end (n,)."""
        first = self.keys.searchsorted(np.uint32(low))
        ends: np.ndarray = self.ends[first : self.keys.searchsorted(np.uint32(high - 1), "right")]
        return ends

    def follow(self, places: np.ndarray, rest: bytes) -> np.ndarray:
        """The places that are followed by `rest`."""
        for offset, byte in enumerate(rest):
            if not len(places):
                break
            places = places[self.data[np.minimum(places + offset, len(self.data) - 1)] == byte]
        return places

    def precede(self, places: np.ndarray, byte: int, distance: int) -> np.ndarray:
        """The places with `byte` at `distance` before them."""
        found: np.ndarray = places[self.data[places - np.minimum(distance, places)] == byte]
        return found

    def find_word(self, word: bytes) -> np.ndarray:
        """Where a whole word ends (n,), also in files that no longer count."""
        ends = self.ends_of(*word_range(word))
        for distance, byte in enumerate(reversed(word), 1):
            ends = self.precede(ends, byte, distance)
        found: np.ndarray = ends[~IN_WORD[self.data[ends - np.minimum(len(word) + 1, ends)]]]
        return found


def sort_words(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted keys of a text's words, and where each word ends (n,)."""
    inside = IN_WORD[data]
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1  # a word begins, ends, ...
    if not len(edges):
        return np.empty(0, np.uint32), np.empty(0, np.uint32)
    lengths = np.diff(edges, append=len(data))
    place = np.arange(edges[0], len(data), dtype=np.uint32) - np.repeat(edges.astype(np.uint32), lengths)
    weighted = (data[edges[0] :] + np.uint32(1)) * WEIGHTS[place & 63]
    sums = np.add.reduceat(weighted, edges - edges[0], dtype=np.uint32)  # words and gaps alternate
    words, between = sums[0::2], sums[1::2]
    before = np.zeros_like(words)
    before[1:] = words[:-1] * np.uint32(31) + between[: len(words) - 1]
    keys = halve(words) << np.uint32(16) | halve(before)
    order = np.argsort(keys, kind="stable")
    return keys[order], edges[1::2].astype(np.uint32)[order]


def halve(sums: np.ndarray) -> np.ndarray:
    """Reduce 32-bit sums to 16 bits (n,)."""
    halves: np.ndarray = (sums * np.uint32(MIX)) >> np.uint32(16)
    return halves


def sum_bytes(run: bytes) -> np.ndarray:
    """The sum that hashes a word, or what is between two (1,)."""
    weighted = (np.frombuffer(run, np.uint8) + np.uint32(1)) * WEIGHTS[np.arange(len(run)) & 63]
    return np.add.reduce(weighted, keepdims=True, dtype=np.uint32)


def word_range(word: bytes) -> tuple[int, int]:
    """The range of a word's keys: from, to."""
    half = int(halve(sum_bytes(word))[0])
    return half << 16, half + 1 << 16


def pair_range(word: bytes, before: tuple[bytes, bytes]) -> tuple[int, int]:
    """The range of keys of a word after another one and what is between them: from, to."""
    low, _ = word_range(word)
    key = low | int(halve(sum_bytes(before[0]) * np.uint32(31) + sum_bytes(before[1]))[0])
    return key, key + 1
