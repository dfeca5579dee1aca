"""Remembers what an editor was shown last, to notice when it is accepted."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from chatapp.completion.completer import Offer
from chatapp.completion.place import Place
from chatapp.lsp.document import Document


class Numbered(NamedTuple):
    """An offer with the number by which the editor reports its acceptance."""

    number: int
    offer: Offer


@dataclass(frozen=True)
class Answered:
    """The offers shown at a position."""

    place: Place
    line: int
    character: int
    offers: list[Numbered]

    def number_of(self, offer: Offer, place: Place) -> int | None:
        """The number of the shown offer that this is, or is the rest of after some typing; None if new."""
        if place.suffix != self.place.suffix or not place.prefix.startswith(self.place.prefix):
            return None
        text = place.prefix[len(self.place.prefix) :] + offer.text
        return next((number for number, known in self.offers if known.text == text), None)


class Shown:
    """The last offers shown in each document, until one is accepted."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)
        self._answers: dict[str, Answered] = {}

    def add(self, uri: str, place: Place, at: tuple[int, int], offers: list[Offer]) -> tuple[list[Numbered], bool]:
        """Number the offers; returns them, and whether any is new rather than the rest of one shown before."""
        last = self._answers.get(uri)
        known = [last.number_of(offer, place) if last else None for offer in offers]
        numbered = [Numbered(old or next(self._numbers), offer) for old, offer in zip(known, offers, strict=True)]
        self._answers[uri] = Answered(place, *at, numbered)
        return numbered, None in known

    def find_accepted(self, uri: str, document: Document) -> Offer | None:
        """The offer that now stands in the text where it was shown; reported once."""
        if not (last := self._answers.get(uri)) or last.line >= len(document.lines):
            return None
        for numbered in last.offers:
            text = numbered.offer.text
            if not last.place.suffix.startswith(text) and (
                document.after(last.line, last.character, len(text)) == text
            ):
                return self.take(numbered.number)
        return None

    def take(self, number: int) -> Offer | None:
        """The offer with this number; reported once."""
        for uri, last in self._answers.items():
            for found in last.offers:
                if found.number == number:
                    del self._answers[uri]
                    return found.offer
        return None

    def forget(self, uri: str) -> None:
        """Forget a document."""
        self._answers.pop(uri, None)
