"""Tokens in, whole characters out, as they arrive."""

from __future__ import annotations  # as in chatapp.text.child

import codecs
import copy
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from chatapp.generation.text.thinking import CALL, THINK

RECIPIENT = re.compile(r"to=functions\.([\w.-]+)")
"""Whom a message of gpt-oss is for, in its header."""


class Tokenizer(Protocol):
    """What is asked of a tokenizer."""

    hidden: frozenset[int]
    harmony: dict[int, str]

    def whole(self, token: int) -> str | None: ...
    def bytes_of(self, token: int) -> bytes | None: ...
    def name(self, token: int) -> str: ...
    def decode(self, tokens: Iterable[int]) -> str: ...


class Detokenizer:
    """Turns tokens into text as they arrive, each once, and never takes back a character.

    The pieces together are what decoding all tokens at once gives. (One difference: among byte-fallback
    tokens an invalid byte becomes U+FFFD alone, where decoding at once spoils the whole run of bytes.)
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), given: int = 0):
        """`context` is what the text continues: it decides, for some tokenizers, about the first space.

        The first `given` bytes are not told: the text before ends with them.
        """
        self.tokenizer, self.given = tokenizer, given
        self.utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.previous = next((token for token in reversed(context) if self._visible(token)), None)

    def add(self, token: int) -> str:
        """The text that this token completes; the beginning of a character waits for its end."""
        whole = self.tokenizer.whole(token)
        if whole is not None and not (self.given or self.utf8.getstate()[0]):
            self.previous = token
            return whole
        if not self._visible(token):
            return ""
        content = self.tokenizer.bytes_of(token)
        text = self.flush() + self._text(token) if content is None else self.utf8.decode(content[self.given :])
        self.previous, self.given = token, max(0, self.given - len(content or b""))
        return text

    def copy(self) -> Detokenizer:
        """Another one that goes on from here."""
        other = copy.copy(self)
        other.utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        other.utf8.setstate(self.utf8.getstate())
        return other

    def flush(self) -> str:
        """What is left at the end: U+FFFD if a character remained incomplete."""
        return self.utf8.decode(b"", final=True)

    def describe(self, token: int) -> str:
        """What a token would look like here, were it the next one; a special token by its name."""
        whole = self.tokenizer.whole(token)
        if whole is not None and not self.given:
            return whole
        if not self._visible(token):
            return self.tokenizer.name(token)
        content = self.tokenizer.bytes_of(token)
        return self._text(token) if content is None else content[self.given :].decode(errors="replace")

    def _visible(self, token: int) -> bool:
        return token not in self.tokenizer.hidden and bool(self.tokenizer.name(token))

    def _text(self, token: int) -> str:
        """What a token of characters adds: how it is spaced depends on whether one stands before it."""
        alone = self.tokenizer.decode([token])
        if self.previous is None:
            return alone
        before = self.tokenizer.decode([self.previous])
        both = self.tokenizer.decode([self.previous, token])
        return both.removeprefix(before) if both.startswith(before) else alone


class HarmonyDetokenizer(Detokenizer):
    """Tells gpt-oss's channels, https://github.com/openai/harmony, as other models tell what they think and call.

    A message is a header, which names its channel and whom it is for, and a content; an answer is the one in the
    channel `final`.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), given: int = 0):
        super().__init__(tokenizer, context, given)
        self.header: str | None = None
        """What was read of a header; None within a content."""
        self.begun = self.thinking = False

    def add(self, token: int) -> str:
        mark = self.tokenizer.harmony.get(token)
        if mark == "<|message|>":
            told, self.header = self._open(self.header or ""), None
            return told
        if mark:
            told = self.flush()
            self.header = (self.header or "") + mark
            return told
        if self.header is None:
            return super().add(token)
        self.header += super().add(token)
        return ""

    def _open(self, header: str) -> str:
        """What is told where a content begins."""
        called = RECIPIENT.search(header)
        thinks = not called and "<|channel|>final" not in header and not (self.begun and not self.thinking)
        begin, end = THINK
        told = ("\n\n" if self.begun else begin) if thinks else end if self.thinking else ""
        self.begun, self.thinking = True, thinks
        return told + (CALL.format(called[1]) if called else "")
