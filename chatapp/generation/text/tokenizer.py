"""Text to tokens, keeping special ones apart, and tokens to text."""

from __future__ import annotations

import copy
import json
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import tokenizers

from chatapp.generation.errors import GenerationError
from chatapp.generation.text import moses
from chatapp.generation.text.detokenizer import Detokenizer, HarmonyDetokenizer
from chatapp.generation.text.spelling import Spelling
from chatapp.generation.text.thinking import HARMONY, TOLD, respell
from model_store.checkpoint.config_fields import check_fields
from model_store.files import optional_json
from model_store.tokenizers.check import check
from model_store.tokenizers.special_tokens import special_tokens, tokenizer_class

CONTROL = re.compile(r"\s*(<.+>|\[.+\])\s*")
"""What added tokens that are not marked special look like if they are control tokens."""
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
MARK = "\ufdd0"
"""Inserted into the spelling of a control token that is only text; Unicode promises that no text has it."""
LEAD = "☺"
"""Prepended to a text, and removed again: a letter that merges with nothing (CodeLlama, Mistral)."""
LONG = 50_000
"""Texts with this many characters are encoded without blocking other threads: they take 30 ms or more."""
ENCODING = "the model's tokenizer cannot encode this text"
FIRST, NEVER = b'"prepend_scheme":"first"', b'"prepend_scheme":"never"'
"""Settings of the pre-tokenizer that prepends a space: parts of a text get none."""


class Tokenizer:
    """A checkpoint's tokenizer; users' text never becomes control tokens, whatever it spells."""

    def __init__(self, folder: Path, path: Path | None = None):
        """For the checkpoint in `folder`; `path` is its tokenizer.json, if that was converted from other files."""
        self.vocabulary = _open(path or folder / "tokenizer.json", folder)
        self.config = optional_json(folder / "tokenizer_config.json")
        """tokenizer_config.json; empty if there is none."""
        added = self.vocabulary.get_added_tokens_decoder()
        self._added = frozenset(added)
        """Tokens whose names may be plain text, while other tokens' names encode bytes."""
        self._own = self.vocabulary.get_vocab_size(with_added_tokens=False)
        """The end of the ids that are not only added tokens."""
        special = {token: entry.content for token, entry in added.items() if entry.special}
        told = TOLD if TOLD.issubset(special.values()) else frozenset[str]()
        self.hidden = frozenset(token for token, content in special.items() if content not in told)
        """Special tokens, which are never shown."""
        self.control = self.hidden | {token for token, entry in added.items() if CONTROL.fullmatch(entry.content)}
        """Special tokens and others such as <tool_call>, which users' text never makes."""
        for token in self.control - self.hidden:
            entry = added[token]
            entry.special = True  # only special ones can be switched off for encoding
            self.vocabulary.add_special_tokens([entry])
        names = {token: entry.content for token, entry in added.items() if entry.content in HARMONY}
        self.harmony = names if len(names) == len(HARMONY) else {}
        """gpt-oss's channel marks by token; empty for other vocabularies."""
        ends = ("<|return|>", "<|call|>") if self.harmony else ()
        self.eos = self._end_ids(folder).difference(self.harmony)  # in GGUF files the ends of messages are listed too
        self.eos |= {token for token, entry in added.items() if entry.content in ends}
        """Ids that end a reply."""
        self._lock = threading.Lock()
        self.unknown = self.control.intersection(self._encode(MARK))
        """The token for unknown letters, if there is one."""
        self.start, self.finish = self._frame()
        """Ids that the tokenizer puts before and after every text, such as <s> and </s>."""
        decoder = json.loads(self.vocabulary.decoder.__getstate__()) if self.vocabulary.decoder else {}
        self.byte_level = decoder.get("type") == "ByteLevel"
        parts = {part["type"] for part in decoder.get("decoders", [decoder] if decoder else [])}
        self._byte_fallback = "ByteFallback" in parts
        self._spaced = not parts.isdisjoint(("Metaspace", "Replace"))
        """Whether ▁ in a token's name is a space."""
        self.spells_bytes = self.byte_level or (bool(parts) and PLAIN.issuperset(parts))
        """Whether a text is the concatenation of its tokens' bytes."""
        self._bytes: dict[int, bytes | None] = {}
        self._whole: dict[int, str | None] = {}
        """Caches of tokens' facts; `functools.cache` would make a reference cycle."""

    def bytes_of(self, token: int) -> bytes | None:
        """A token's bytes, if it stands for bytes rather than characters."""
        if token not in self._bytes:
            self._bytes[token] = self._find_bytes(token)
        return self._bytes[token]

    def whole(self, token: int) -> str | None:
        """A token's text if it is the same in every place: visible, and whole characters."""
        if token not in self._whole:
            self._whole[token] = self._find_whole(token)
        return self._whole[token]

    def encode(self, text: str) -> list[int]:
        """Encode a user's text, in which spelled control tokens are plain letters."""
        return self._encode_part(text)

    def encode_behind(self, text: str) -> list[int]:
        """Encode a user's text that follows other tokens, without the space that some tokenizers prepend."""
        if self.byte_level:
            return self.encode(text)
        return self.encode(LEAD + text)[len(self.encode(LEAD)) :]

    def encode_prompt(self, text: str) -> list[int]:
        """Encode a user's text to be continued, with the tokens that go before every text."""
        return [*self.start, *self.encode(text)]

    def encode_whole(self, text: str) -> list[int]:
        """Encode a user's text for an encoder, with the tokens that go around every text."""
        return [*self.start, *self.encode(text), *self.finish]

    def encode_reply(self, text: str) -> list[int]:
        """Encode a reply; for models with channels, its thinking goes into its channel."""
        begin, thought, middle, answer = respell(text) if self.harmony else ("", "", "", text)
        marks = map(self.encode_template, (begin, middle))
        return [*next(marks), *self.encode(thought), *next(marks), *self.encode(answer)]

    def encode_template(self, text: str) -> list[int]:
        """Encode a template's text, in which control tokens count unless MARKs break up their spelling."""
        if MARK not in text:
            return list(self._with_control(text).ids)
        tokens, start = list[int](), 0
        for begin, end, token in self.controls(text):
            tokens += [*self._encode_part(text[start:begin].replace(MARK, ""), first=not start), token]
            start = end
        return tokens + self._encode_part(text[start:].replace(MARK, ""), first=not start)

    def controls(self, text: str) -> list[tuple[int, int, int]]:
        """Where a text spells control tokens: (begin, end, token)."""
        encoding = self._with_control(text)
        return [
            (begin, end, token)
            for token, (begin, end) in zip(encoding.ids, encoding.offsets, strict=True)
            if token in self.control and (token not in self.unknown or text[begin:end].strip() == self.name(token))
        ]

    def guard(self, text: str) -> str:
        """Break up spelled control tokens with MARKs, so that a template's rendering does not contain them."""
        text = text.replace(MARK, "")
        return mark_places(text, self.controls(text))

    def decode(self, tokens: Iterable[int]) -> str:
        """Decode tokens, leaving out special ones."""
        shown = [token for token in tokens if token not in self.hidden]
        if self.byte_level:
            return b"".join(self.bytes_of(token) or b"" for token in shown).decode(errors="replace")
        with _narrowed("the model's tokenizer cannot decode its tokens"):
            return self.vocabulary.decode(shown, False)

    def detokenizer(self, context: Sequence[int] = (), given: int = 0) -> Detokenizer:
        """A detokenizer; its docstring explains `context` and `given`."""
        return (HarmonyDetokenizer if self.harmony else Detokenizer)(self, context, given)

    def token_id(self, text: str) -> int | None:
        """The id of the token with this name; None if there is none."""
        token: int | None = self.vocabulary.token_to_id(text)
        return token

    def name(self, token: int) -> str:
        """A token's name in the vocabulary; "" if there is no such token."""
        return self.vocabulary.id_to_token(token) or ""

    def content(self, token: int) -> bytes:
        """The bytes that a token adds to a text; empty for control tokens."""
        if token in self.control:
            return b""
        content = self.bytes_of(token)
        if content is not None:
            return content
        name = self.name(token)
        return (name.replace("▁", " ") if self._spaced else name).encode()

    @cached_property
    def spelling(self) -> Spelling:
        """All tokens by their bytes."""
        size = self.vocabulary.get_vocab_size()
        return Spelling((content, token) for token in range(size) if (content := self.content(token)))

    def _find_bytes(self, token: int) -> bytes | None:
        name = self.name(token)
        if self.byte_level:
            try:
                plain = name.isascii()  # stands for itself, and is much faster
                content = name.encode() if plain else name.translate(ALPHABET).encode("latin-1")
            except UnicodeEncodeError:  # a character without a byte
                return name.encode()
            written = token in self._added and (token >= self._own or not UNUSED.isdisjoint(content))
            return name.encode() if written else content
        match = BYTE.fullmatch(name) if self._byte_fallback else None
        return bytes([int(match[1], 16)]) if match else None

    def _find_whole(self, token: int) -> str | None:
        content = None if token in self.hidden else self.bytes_of(token)
        try:
            return content.decode() if content else None
        except UnicodeDecodeError:
            return None

    def _encode_part(self, text: str, *, first: bool = True) -> list[int]:
        """Encode plain text without control tokens; `first`: it is the beginning of the whole text."""
        tokens = self._encode(text, first=first)
        spelled = any(self.name(token) in text for token in self.unknown.intersection(tokens))
        if spelled or not (self.control - self.unknown).isdisjoint(tokens):  # spelt in letters
            return self._encode(text, first=first, vocabulary=self._harmless)
        return tokens

    def _encode(self, text: str, *, first: bool = True, vocabulary: tokenizers.Tokenizer | None = None) -> list[int]:
        used = vocabulary or self.vocabulary
        with self._lock, _narrowed(ENCODING):
            used.encode_special_tokens = True
            words = used.pre_tokenizer
            if not first and words and FIRST in words.__getstate__():
                spaceless = copy.deepcopy(words)
                spaceless.__setstate__(words.__getstate__().replace(FIRST, NEVER))
                used.pre_tokenizer = spaceless
            ids: list[int] = _encode_aside(used, text).ids
            if not first and words:
                used.pre_tokenizer = words
        return ids

    def _with_control(self, text: str) -> tokenizers.Encoding:
        """Encode a text in which control tokens count."""
        with self._lock, _narrowed(ENCODING):
            self.vocabulary.encode_special_tokens = False
            return _encode_aside(self.vocabulary, text)

    @cached_property
    def divides_numbers(self) -> bool:
        """Whether each digit is a token of its own, by rule."""
        words = self.vocabulary.pre_tokenizer
        return words is not None and b'"individual_digits":true' in words.__getstate__()

    @cached_property
    def _harmless(self) -> tokenizers.Tokenizer:
        """The same vocabulary without control tokens: their names are impossible to write.

        It is made only when a text spells one, which is rare.
        """
        content = json.loads(self.vocabulary.to_str())
        names = {name: f"{name} {secrets.token_hex(16)}" for name in map(self.name, self.control)}
        model = content["model"]
        if isinstance(model["vocab"], dict):
            model["vocab"] = {names.get(name, name): token for name, token in model["vocab"].items()}
        else:
            model["vocab"] = [(names.get(name, name), score) for name, score in model["vocab"]]
        if "merges" in model:
            model["merges"] = [pair for pair in model["merges"] if names.keys().isdisjoint((*pair, "".join(pair)))]
        if model.get("unk_token") in names:
            model["unk_token"] = names[model["unk_token"]]
        for entry in content["added_tokens"]:
            entry["content"] = names.get(entry["content"], entry["content"])
        return tokenizers.Tokenizer.from_str(json.dumps({**content, "post_processor": None}))

    def _frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        with _narrowed(ENCODING):
            content = self.vocabulary.encode("a", add_special_tokens=False).ids
            framed = self.vocabulary.encode("a").ids
        places = [i for i in range(len(framed)) if framed[i : i + len(content)] == content]
        if not places:
            return (), ()
        return tuple(framed[: places[0]]), tuple(framed[places[0] + len(content) :])

    def _end_ids(self, folder: Path) -> frozenset[int]:
        ids = {self.token_id(special_tokens(folder).get("eos_token", ""))}
        for name in ("generation_config.json", "config.json"):
            fields = optional_json(folder / name)
            check_fields({"eos_token_id": fields.get("eos_token_id")}, name)
            declared = fields.get("eos_token_id")
            ids.update(declared if isinstance(declared, list) else [declared])
        return frozenset(token for token in ids if isinstance(token, int))


def mark_places(text: str, places: Sequence[tuple[int, int, int]]) -> str:
    """Insert MARKs between the letters of these places."""
    for begin, end, _ in reversed(places):
        text = text[:begin] + "".join(letter + MARK for letter in text[begin:end]) + text[end:]
    return text


def _open(path: Path, folder: Path) -> tokenizers.Tokenizer:
    if path.is_file():
        check(path)
        with _narrowed(f"cannot read {path}"):
            vocabulary = tokenizers.Tokenizer.from_file(str(path))
    else:
        from model_store.tokenizers.tokenizer import convert

        content = convert(folder)
        with _narrowed(f"cannot load the tokenizer of {folder}"):
            vocabulary = tokenizers.Tokenizer.from_str(json.dumps(content))
    vocabulary.no_truncation()
    vocabulary.no_padding()
    return vocabulary


PLAIN = frozenset(("ByteFallback", "Fuse", "Metaspace", "Replace", "Strip"))
"""Decoder parts that only turn SentencePiece's spaces and bytes into real ones."""


def _encode_aside(vocabulary: tokenizers.Tokenizer, text: str) -> tokenizers.Encoding:
    """Encode a text; a LONG one as a batch, which releases Python's global lock."""
    if len(text) < LONG:
        return vocabulary.encode(text, add_special_tokens=False)
    (encoding,) = vocabulary.encode_batch([text], add_special_tokens=False)
    return encoding


@contextmanager
def _narrowed(what: str) -> Iterator[None]:
    """Turn the library's errors into GenerationErrors: it raises plain Exceptions, and panics."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise GenerationError(f"{what}: {error}; pull or download the tokenizer again") from error


def _alphabet() -> dict[int, int]:
    """The byte of each character of a byte-level token (GPT-2, bytes_to_unicode); 256 for none."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return dict.fromkeys(others, 256) | {256 + i: byte for i, byte in enumerate(others)}


ALPHABET = _alphabet()
UNUSED = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
"""Bytes that UTF-8 never contains: their characters, such as ü, stand for themselves (DeepSeek-Coder)."""


class MosesTokenizer(Tokenizer):
    """A tokenizer for Moses' words, which the vocabulary's own decoder cannot join."""

    def encode_template(self, text: str) -> list[int]:
        raise GenerationError("a chat template cannot be used with BioGPT's tokenizer; remove it from the folder")

    def decode(self, tokens: Iterable[int]) -> str:
        return moses.join_words(self.name(token) for token in tokens if token not in self.hidden)

    def detokenizer(self, context: Sequence[int] = (), given: int = 0) -> Detokenizer:
        return MosesDetokenizer(self, context, given)

    def _encode(self, text: str, *, first: bool = True, vocabulary: tokenizers.Tokenizer | None = None) -> list[int]:
        return super()._encode(" ".join(moses.split_words(text)), first=first, vocabulary=vocabulary)

    def _find_whole(self, token: int) -> str | None:
        return None  # its text depends on the words around it


class MosesDetokenizer(Detokenizer):
    """Joins Moses' words as their tokens arrive."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), given: int = 0):
        super().__init__(tokenizer, context, given)
        self.sentence = moses.Sentence()
        for token in filter(self._visible, context):
            self.sentence.grow(tokenizer.name(token))
        self.sentence.finish()

    def add(self, token: int) -> str:
        return self.sentence.grow(self.tokenizer.name(token)) if self._visible(token) else ""

    def copy(self) -> Detokenizer:
        other = copy.copy(self)
        other.sentence = copy.deepcopy(self.sentence)
        return other

    def flush(self) -> str:
        return self.sentence.finish()

    def describe(self, token: int) -> str:
        name = self.tokenizer.name(token)
        return moses.unescape(name.removesuffix(moses.END)) if self._visible(token) else name


def open_tokenizer(folder: Path, path: Path | None = None) -> Tokenizer:
    """Open the tokenizer of the checkpoint in `folder`, of the right class."""
    if tokenizer_class(folder) == "BioGptTokenizer":
        return MosesTokenizer(folder, path)
    return Tokenizer(folder, path)
