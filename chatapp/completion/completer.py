"""Complete code at a place: gather candidates, rank them, and decide which are shown unasked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chatapp.completion.block import Block
from chatapp.completion.candidates import Candidate, Source, find_candidates, judge
from chatapp.completion.gate import Gate, is_word
from chatapp.completion.place import Place
from chatapp.completion.ranker import rank, read_weights
from chatapp.generation import Engine
from chatapp.generation.contract import Wanted, yes

THRESHOLD = 0.3
"""The least probability of an offer shown unasked."""
WORTH = 0.02
"""The least probability of a candidate that is checked for faults."""
SENSIBLE = 0.1
"""The least probability of a further line of a block, if the user asked for offers."""


@dataclass(frozen=True)
class Offer:
    """A text for the place."""

    text: str
    source: Source
    """Its nearest source; the model if no file has it."""
    probability: float
    """The probability that exactly this will be written."""
    withheld: str = ""
    """Why it is only shown when asked for; "" if it is shown unasked."""
    path: Path | None = None
    """The other file where it was found."""
    candidate: Candidate | None = None
    """The evidence for it."""

    def begins_with(self, typed: str) -> bool:
        """Whether it begins with what was typed, and is longer."""
        return self.text.startswith(typed) and len(self.text) > len(typed)


@dataclass(frozen=True)
class Answer:
    """The last offers, and the request they answered."""

    asked: tuple[object, ...]
    """What must be unchanged for the answer to hold, typing aside."""
    prefix: str
    n: int
    offers: Sequence[Offer]
    none: float
    """The probability that no candidate is right."""

    def go_on(self, place: Place) -> list[Offer]:
        """The rest of the offers, if the best of them is being typed."""
        typed = place.prefix[len(self.prefix) :]
        if not typed:
            return list(self.offers)
        if not self.offers or not self.offers[0].begins_with(typed):
            return []
        left = [offer for offer in self.offers if offer.begins_with(typed)]
        total = sum(offer.probability for offer in left) + self.none
        return [replace(offer, text=offer.text[len(typed) :], probability=offer.probability / total) for offer in left]


class Completer:
    """Makes offers for one place after another; until `open` has loaded the model, from files alone."""

    def __init__(
        self, engine: Engine | Callable[[], Engine] | None, *, threshold: float = THRESHOLD, matching: bool = True
    ):
        """`engine` is a loaded engine, a function that loads one, or None for offers from files alone.

        Without `matching`, files are not searched for lines.
        """
        self.threshold, self.matching = threshold, matching
        self.engine: Engine | None = None if callable(engine) else engine
        self._open = engine if callable(engine) else None
        self._last: Answer | None = None
        self._gate = Gate()

    def open(self) -> None:
        """Load the model if need be; other threads may ask for offers meanwhile."""
        if self._open and not self.engine:
            self.engine = self._open()
            self._open = self._last = None

    def offers(
        self,
        place: Place,
        n: int = 1,
        *,
        invoked: bool = False,
        lines: int | None = 1,
        wanted: Wanted = yes,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[Offer]:
        """At most n distinct offers for a place, best first; unless `invoked`, only those worth showing unasked.

        They have at most `lines` lines; None: as many as the block has. `wanted` is called repeatedly, and False
        cancels; once `enough` returns True, offers get no further lines.
        """
        last, asked = self._last, (place.path, place.ending, place.suffix, invoked, lines, self.threshold)
        same = last and last.asked == asked and n <= last.n and place.prefix.startswith(last.prefix)
        if last and same and (left := last.go_on(place)):
            return left[:n]
        found, none = self._find(place, wanted)
        given = [offer for offer in found if invoked or not offer.withheld][:n]
        if lines != 1:
            block = Block.around(place, lines)
            given = [self._extend(block, place, offer, invoked, lambda: wanted() and not enough()) for offer in given]
        if not wanted():
            return []
        self._last = Answer(asked, place.prefix, n, given, none)
        return given

    def _find(self, place: Place, wanted: Wanted) -> tuple[list[Offer], float]:
        """Offers of one line, best first, and the probability that none is right."""
        candidates = find_candidates(self.engine, place, wanted, matching=self.matching)
        weights = read_weights("model" if self.engine else "files", place.ending)
        ranked = rank(
            [judge(self._gate, place, each) if chance >= WORTH else each for chance, each in rank(candidates, weights)],
            weights,
        )
        alike = dict[str, tuple[float, Candidate]]()
        for probability, each in ranked:  # two may become the same without their closing ends
            known, first = alike.get(each.text, (0.0, each))
            alike[each.text] = known + probability, first
        offers = [self._offer(place, each, probability) for probability, each in alike.values() if each.text]
        offers.sort(key=lambda offer: -offer.probability)
        return offers, 1.0 - sum(offer.probability for offer in offers)

    def _offer(self, place: Place, candidate: Candidate, probability: float) -> Offer:
        source, other = candidate.find_source(place), candidate.other
        path = other.path if other and source in ("open file", "folder") else None
        within = "it is followed by a word" if is_word(place.suffix[:1]) else ""
        withheld = within or candidate.fault or self._withhold(probability)
        return Offer(candidate.text, source, probability, withheld, path, candidate)

    def _withhold(self, probability: float) -> str:
        return f"less likely than {self.threshold:.2f}" if probability < self.threshold else ""

    def _extend(self, block: Block, place: Place, offer: Offer, invoked: bool, more: Callable[[], bool]) -> Offer:
        """Extend an offer by further lines of its block, each found like the first."""
        while block.goes_on(offer.text) and more():
            found, _ = self._find(replace(place, prefix=f"{place.prefix}{offer.text}\n"), more)
            further = [each for each in found if each.candidate and not each.candidate.fault]
            least = SENSIBLE if invoked else self.threshold / offer.probability
            if not further or further[0].probability < least or not block.holds(offer.text, further[0].text):
                break
            text, probability = f"{offer.text}\n{further[0].text}", offer.probability * further[0].probability
            offer = replace(offer, text=text, probability=probability, withheld=self._withhold(probability))
        return offer
