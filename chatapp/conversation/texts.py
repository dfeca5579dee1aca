"""Texts that a user and a model write together: their parts by author, and the model's tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from chatapp.generation import Token
from chatapp.history import Message, Role
from chatapp.history.text import clean
from chatapp.text.printable import printable

Text = str | Sequence[tuple[Role, str]]
"""A text by the user, or parts as (author, text)."""


def parts_of(text: Text) -> Sequence[tuple[Role, str]]:
    """The parts of a text."""
    return [("user", text)] if isinstance(text, str) else text


def last_parts(parts: Sequence[tuple[Role, str]], length: int) -> list[tuple[Role, str]]:
    """The last `length` characters of a text, in parts."""
    found: list[tuple[Role, str]] = []
    for role, text in reversed(parts):
        if length > 0 and text:
            found.insert(0, (role, clean(text[-length:])))
        length -= len(text)
    return found


def fitting_tokens(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """The longest run of first tokens whose text fits into this text; tokens without text go with the next one."""
    found, whole = 0, ""
    for place, token in enumerate(tokens):
        whole += token.text
        if len(printable(whole)) > len(text):
            break
        if token.text:
            found = place + 1
    return tokens[:found]


def find_original(message: Message, versions: Sequence[Message]) -> Message | None:
    """The reply that this message is a prefix of, because the user shortened it."""
    replies = (one for one in versions if one.role == "assistant" and one.id != message.id)
    return next((one for one in replies if printable(one.text).startswith(message.text)), None)


@dataclass(frozen=True)
class Reached:
    """A reply of the model that a text contains, and how much of it."""

    before: Sequence[tuple[Role, str]]
    """The parts before the reply."""
    reply: Message
    tokens: Sequence[Token]
    """The tokens of the reply that the text contains."""
    rest: str
    """The part of the next token that the text contains."""
    whole: bool
    """Whether the text contains all of the reply."""
    after: str = ""
    """The text after the reply."""

    @property
    def cut(self) -> bool:
        """Whether the text leaves the reply exactly between two tokens."""
        return bool(self.tokens) and not (self.rest or self.whole)

    @property
    def shorter(self) -> Sequence[Token]:
        """The tokens without the last visible one; only an incomplete token, if there is one, is removed."""
        tokens = list(self.tokens)
        while tokens and not self.rest and not tokens.pop().text:
            pass
        return tokens
