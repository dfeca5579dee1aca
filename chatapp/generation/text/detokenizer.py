"""Turn tokens into text as they arrive, whole characters only."""

from __future__ import annotations  # as in chatapp.text.child

import codecs
import copy
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from chatapp.generation.text.thinking import CALL, THINK

RECIPIENT = re.compile(r"to=functions\.([\w.-]+)")
"""The function that a message of gpt-oss is for, in its header."""


class Tokenizer(Protocol):
    """What a detokenizer needs of its tokenizer."""

    hidden: frozenset[int]
    harmony: dict[int, str]

    def whole(self, token: int) -> str | None: ...
    def bytes_of(self, token: int) -> bytes | None: ...
    def name(self, token: int) -> str: ...
    def decode(self, tokens: Iterable[int]) -> str: ...


class Detokenizer:
    """Turns tokens into text as they arrive, and never takes back a character.

    The pieces together equal decoding all tokens at once. (With one exception: among byte-fallback tokens, an invalid
    byte becomes U+FFFD alone, where decoding at once spoils the whole run of bytes.)
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), given: int = 0):
        """`context` are the tokens before, which for some tokenizers decide about the first space.

        The first `given` bytes are not returned: the text before already ends with them.
        """
        self.tokenizer, self.given = tokenizer, given
        self.utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.previous = next((token for token in reversed(context) if self._visible(token)), None)

    def add(self, token: int) -> str:
        """The text that this token completes; incomplete characters wait."""
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
        """A copy."""
        other = copy.copy(self)
        other.utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        other.utf8.setstate(self.utf8.getstate())
        return other

    def flush(self) -> str:
        """The rest at the end: U+FFFD for an incomplete character."""
        return self.utf8.decode(b"", final=True)

    def describe(self, token: int) -> str:
        """How a token would look as the next one; a special token by its name."""
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
        """The text that a token adds; spacing depends on whether there is text before it."""
        alone = self.tokenizer.decode([token])
        if self.previous is None:
            return alone
        before = self.tokenizer.decode([self.previous])
        both = self.tokenizer.decode([self.previous, token])
        return both.removeprefix(before) if both.startswith(before) else alone


class HarmonyDetokenizer(Detokenizer):
    """Converts gpt-oss's channels, https://github.com/openai/harmony, to the marks of other models.

    A message has a header, which names its channel and recipient, and a content; an answer is in the channel `final`.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = (), given: int = 0):
        super().__init__(tokenizer, context, given)
        self.header: str | None = None
        """The header read so far; None within a content."""
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
        """The text for the beginning of a content."""
        called = RECIPIENT.search(header)
        thinks = not called and "<|channel|>final" not in header and not (self.begun and not self.thinking)
        begin, end = THINK
        told = ("\n\n" if self.begun else begin) if thinks else end if self.thinking else ""
        self.begun, self.thinking = True, thinks
        return told + (CALL.format(called[1]) if called else "")
