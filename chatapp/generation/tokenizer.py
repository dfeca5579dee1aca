"""Encode text, know the special tokens and the end-of-sequence ids."""

import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tokenizers

from chatapp.generation.errors import GenerationError

CONTROL = re.compile(r"\s*(<.+>|\[.+\])\s*")
"""What an added token that is not marked special looks like when it means more than its letters."""
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """A checkpoint's tokenizer; text of users never becomes a control token, whatever it spells."""

    def __init__(self, folder: Path):
        self.vocabulary = _open(folder / "tokenizer.json")
        self.config = read_json(folder / "tokenizer_config.json")
        """tokenizer_config.json, empty if there is none."""
        added = self.vocabulary.get_added_tokens_decoder()
        self.hidden = frozenset(token for token, entry in added.items() if entry.special)
        """Special tokens: never shown."""
        self.control = self.hidden | {token for token, entry in added.items() if CONTROL.fullmatch(entry.content)}
        """Special tokens and others such as <tool_call>: never made from a user's text."""
        for token in self.control - self.hidden:
            entry = added[token]
            entry.special = True  # only these can be switched off while encoding
            self.vocabulary.add_special_tokens([entry])
        self.eos = self._end_ids(folder)
        """Ids that end a reply."""
        self.start, self.finish = self._frame()
        """Ids that the tokenizer puts before and after every text, such as <s> and </s>."""
        decoder = json.loads(self.vocabulary.decoder.__getstate__()) if self.vocabulary.decoder else {}
        self.byte_level = decoder.get("type") == "ByteLevel"
        self._byte_fallback = any(part["type"] == "ByteFallback" for part in decoder.get("decoders", ()))
        self._bytes: dict[int, bytes | None] = {}
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        """Tokens of a user's text, in which a control token's spelling is only letters."""
        tokens = self._encode(text, plain=True)
        if self.control.isdisjoint(tokens):
            return tokens
        # The vocabulary itself made one (Unigram can): no single character spells a control token.
        return [token for character in text for token in self._encode(character, plain=True)]

    def encode_prompt(self, text: str) -> list[int]:
        """Tokens of a user's text to be continued, with those that the tokenizer puts before every text."""
        return [*self.start, *self.encode(text)]

    def encode_whole(self, text: str) -> list[int]:
        """Tokens of a user's text for an encoder, with those that the tokenizer puts around every text."""
        return [*self.start, *self.encode(text), *self.finish]

    def encode_template(self, text: str) -> list[int]:
        """Tokens of a template's text, in which control tokens count."""
        return self._encode(text, plain=False)

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens, without the special ones."""
        return self.vocabulary.decode([token for token in tokens if token not in self.hidden], False)

    def token_id(self, text: str) -> int | None:
        """The id of the token spelled so in the vocabulary."""
        token: int | None = self.vocabulary.token_to_id(text)
        return token

    def name(self, token: int) -> str:
        """A token as the vocabulary spells it; empty if it has no such token."""
        return self.vocabulary.id_to_token(token) or ""

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes that a token stands for, when it stands for bytes and not for characters."""
        if token not in self._bytes:
            self._bytes[token] = self._find_bytes(token)
        return self._bytes[token]

    def beginning_with(self, token: int) -> list[int]:
        """The tokens whose bytes begin with this one's, itself among them; none if they are not bytes."""
        name = self.name(token)
        if not self.byte_level or not name or token in self.control:
            return []
        known = self.vocabulary.get_vocab().items()
        return sorted(other for spelling, other in known if spelling.startswith(name) and other not in self.control)

    def _find_bytes(self, token: int) -> bytes | None:
        name = self.name(token)
        if self.byte_level:
            known = name and ALPHABET.keys() >= set(name)
            return bytes(ALPHABET[character] for character in name) if known else name.encode()
        match = BYTE.fullmatch(name) if self._byte_fallback else None
        return bytes([int(match[1], 16)]) if match else None

    def _encode(self, text: str, *, plain: bool) -> list[int]:
        with self._lock:
            self.vocabulary.encode_special_tokens = plain
            ids: list[int] = self.vocabulary.encode(text, add_special_tokens=False).ids
        return ids

    def _frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        content = self.vocabulary.encode("a", add_special_tokens=False).ids
        framed = self.vocabulary.encode("a").ids
        places = [i for i in range(len(framed)) if framed[i : i + len(content)] == content]
        if not places:
            return (), ()
        return tuple(framed[: places[0]]), tuple(framed[places[0] + len(content) :])

    def _end_ids(self, folder: Path) -> frozenset[int]:
        ids = {self.token_id(special_tokens(folder).get("eos_token", ""))}
        for name in ("generation_config.json", "config.json"):
            declared = read_json(folder / name).get("eos_token_id")
            ids.update(declared if isinstance(declared, list) else [declared])
        return frozenset(token for token in ids if isinstance(token, int))


def read_json(path: Path) -> dict[str, Any]:  # Any: whatever the publisher wrote
    """The object in a JSON file, empty if there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise GenerationError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise GenerationError(f"cannot read {path}: it does not hold a JSON object")
    return content


def special_tokens(folder: Path) -> dict[str, str]:
    """Roles and texts of a checkpoint's special tokens, such as {"bos_token": "<s>"}."""
    entries = {**read_json(folder / "special_tokens_map.json"), **read_json(folder / "tokenizer_config.json")}
    contents = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in entries.items()
        if name.endswith("_token")
    }
    return {name: content for name, content in contents.items() if isinstance(content, str)}


def _open(path: Path) -> tokenizers.Tokenizer:
    if not path.is_file():
        raise GenerationError(
            f"there is no tokenizer.json in {path.parent}; the model needs one to read and write text"
        )
    try:
        vocabulary = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise GenerationError(f"cannot read {path}: {error}; fetch the file again") from error
    vocabulary.no_truncation()
    vocabulary.no_padding()
    return vocabulary


def _alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for (GPT-2, bytes_to_unicode)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


ALPHABET = _alphabet()
