"""What an editor was shown last, so that typing it on costs nothing, and taking it is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from chatapp.completion.offers import Offer
from chatapp.lsp.document import Document


class Numbered(NamedTuple):
    """An offer, and the number by which the editor can say that it was taken."""

    number: int
    offer: Offer


@dataclass(frozen=True)
class Asked:
    """What an offer is for: a place, and how many offers were asked for, and how."""

    prefix: str
    suffix: str
    n: int
    invoked: bool


@dataclass(frozen=True)
class Answered:
    """The offers for a place."""

    asked: Asked
    line: int
    character: int
    offers: list[Numbered]


class Shown:
    """The last answer for each document, and the offers among them that were not taken yet."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)
        self._answers: dict[str, Answered] = {}

    def add(self, uri: str, asked: Asked, line: int, character: int, offers: list[Offer]) -> list[Numbered]:
        """Note what is shown, and number it."""
        numbered = [Numbered(next(self._numbers), offer) for offer in offers]
        self._answers[uri] = Answered(asked, line, character, numbered)
        return numbered

    def typed_on(self, uri: str, asked: Asked) -> list[Numbered]:
        """The rest of what was shown, where it is what was typed since; nothing where something new is asked."""
        if not (last := self._answers.get(uri)):
            return []
        enough = last.asked.n >= asked.n and last.asked.invoked >= asked.invoked
        if not enough or asked.suffix != last.asked.suffix or not asked.prefix.startswith(last.asked.prefix):
            return []
        typed = asked.prefix[len(last.asked.prefix) :]
        return [
            Numbered(number, replace(offer, text=offer.text[len(typed) :]))
            for number, offer in last.offers
            if offer.text.startswith(typed) and offer.text != typed
        ][: asked.n]

    def taken(self, uri: str, document: Document) -> Offer | None:
        """The offer that stands in the text now, at the place where it was shown; it is told once."""
        if not (last := self._answers.get(uri)) or last.line >= len(document.lines):
            return None
        for numbered in last.offers:
            text = numbered.offer.text
            if not last.asked.suffix.startswith(text) and (
                document.after(last.line, last.character, len(text)) == text
            ):
                return self.take(numbered.number)
        return None

    def take(self, number: int) -> Offer | None:
        """The offer of a number; it is told once."""
        for uri, last in self._answers.items():
            for found in last.offers:
                if found.number == number:
                    del self._answers[uri]
                    return found.offer
        return None

    def forget(self, uri: str) -> None:
        """Forget a document."""
        self._answers.pop(uri, None)
