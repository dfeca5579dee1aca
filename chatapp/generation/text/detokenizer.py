"""Tokens in, whole characters out."""

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.generation.text.tokenizer import Tokenizer


class Detokenizer:
    """Turns tokens into text as they arrive, each once, and never takes back a character.

    The pieces together are what decoding all tokens at once gives. (One difference: among byte-fallback
    tokens an invalid byte becomes U+FFFD alone, where decoding at once spoils the whole run of bytes.)
    """

    def __init__(self, tokenizer: "Tokenizer", context: Sequence[int] = (), given: int = 0):
        """`context` is what the text continues: it decides, for some tokenizers, about the first space.

        The first `given` bytes, all of the first token, are not told: the text before ends with them.
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
        self.previous, self.given = token, 0
        return text

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
