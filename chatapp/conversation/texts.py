"""Texts that a user and a model write together: their parts, and the tokens of the model's."""

from collections.abc import Sequence
from dataclasses import dataclass

from chatapp.generation import Token
from chatapp.history import Message, Role
from chatapp.history.text import clean
from chatapp.text.printable import printable

Text = str | Sequence[tuple[Role, str]]
"""A text by its user, or its parts with who wrote each."""


def parts_of(text: Text) -> Sequence[tuple[Role, str]]:
    """The parts of a text."""
    return [("user", text)] if isinstance(text, str) else text


def ends(parts: Sequence[tuple[Role, str]], length: int) -> list[tuple[Role, str]]:
    """The last so many characters of a text in parts."""
    found: list[tuple[Role, str]] = []
    for role, text in reversed(parts):
        if length > 0 and text:
            found.insert(0, (role, clean(text[-length:])))
        length -= len(text)
    return found


def beginning(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """As many of the tokens as make this text, at most; those without a text count to the one behind them."""
    found, whole = 0, ""
    for place, token in enumerate(tokens):
        whole += token.text
        if len(printable(whole)) > len(text):
            break
        if token.text:
            found = place + 1
    return tokens[:found]


def shortened(message: Message, versions: Sequence[Message]) -> Message | None:
    """The reply of which a message is what its user left."""
    replies = (one for one in versions if one.role == "assistant" and one.id != message.id)
    return next((one for one in replies if printable(one.text).startswith(message.text)), None)


@dataclass(frozen=True)
class Reached:
    """How far a text goes into a reply of the model."""

    before: Sequence[tuple[Role, str]]
    """The parts before the reply."""
    reply: Message
    tokens: Sequence[Token]
    """The tokens of the reply that the text has."""
    rest: str
    """What the text has of the token after those."""
    whole: bool
    """Whether the text has all of the reply."""
    after: str = ""
    """The text behind the reply."""

    @property
    def cut(self) -> bool:
        """Whether the text ends, or what follows begins, between two of the reply's tokens."""
        return bool(self.tokens) and not (self.rest or self.whole)

    @property
    def shorter(self) -> Sequence[Token]:
        """The tokens without the last one that is to be seen, or what is left of it."""
        tokens = list(self.tokens)
        while tokens and not self.rest and not tokens.pop().text:
            pass
        return tokens
