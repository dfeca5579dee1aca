"""Completes code at a place: gathers candidates, ranks them, and says which are worth showing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chatapp.completion.offers import Offer, Source
from chatapp.completion.place import Place
from chatapp.completion.request import Request, Suggestion, offers
from chatapp.generation import Engine

THRESHOLD = 0.3
"""The probability from which an offer is shown unasked."""


class Completer:
    """Offers for one place after another; `open` loads the model, and until then files alone have offers."""

    def __init__(self, engine: Engine | Callable[[], Engine] | None, *, threshold: float = THRESHOLD):
        """`engine` may be one that is loaded, something that loads one, or nothing: then files alone have offers."""
        self.threshold = threshold
        self.engine: Engine | None = None if callable(engine) else engine
        self._open = engine if callable(engine) else None

    def open(self) -> None:
        """Load the model, if that is not done yet; meanwhile another thread may ask for offers."""
        if self._open and not self.engine:
            self.engine, self._open = self._open(), None

    def offers(
        self,
        place: Place,
        n: int = 1,
        *,
        invoked: bool = False,
        lines: int | None = 1,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Offer]:
        """At most n different offers for a place, the best first: only what is worth showing unasked, unless `invoked`.

        They have at most so many lines; None: as many as the block asks for. `wanted` is asked again and again, and
        where it says no nothing is offered.
        """
        request = Request(place.prefix, place.suffix, {"n": n}, lines=lines)
        found = [self._offer(suggestion) for suggestion in offers(self.engine, request, wanted)]
        return [offer for offer in found if invoked or not offer.withheld] if wanted() else []

    def _offer(self, suggestion: Suggestion) -> Offer:
        source: Source = "file" if suggestion.source == "file" else "model"
        probability = {("file", True): 0.67, ("file", False): 0.07, ("model", True): 0.23, ("model", False): 0.04}
        offer = Offer(suggestion.text, source, probability[source, suggestion.sure], suggestion.reply)
        unsure = offer.probability < self.threshold
        return replace(offer, withheld=f"its probability is {offer.probability:.2f}") if unsure else offer
