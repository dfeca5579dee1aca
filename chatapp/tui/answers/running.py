"""A comparison while it runs: a thread draws its events, the screen takes them in batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from chatapp.evaluation import compare
from chatapp.generation import Engine
from chatapp.tui.threads import Drain
from chatapp.workspace import Opened

Progress = Callable[[str, float], None]
Warn = Callable[[str], None]
OpenModel = Callable[[str, str | None, Progress, Warn], Opened]
"""Opens a model on a backend, or where it runs best; is given what to tell the progress and a fallback to."""
Draw = Callable[[Sequence[compare.Runner], compare.Question], Generator[compare.Event, None, None]]


@dataclass(frozen=True)
class Way:
    """A model, and where it is to run; None is where it runs best."""

    model: str
    backend: str | None = None

    def __str__(self) -> str:
        return f"{self.model} on {self.backend}" if self.backend else self.model


@dataclass(frozen=True)
class Progressed:
    """Opening takes a while; this is how far it is."""

    index: int
    step: str
    share: float


@dataclass(frozen=True)
class Warned:
    """A backend has failed, and another takes over."""

    reason: str


class Run(Drain["compare.Event | Progressed | Warned"]):
    """Draws one comparison; begins when the one before has let its engine go."""

    def __init__(
        self,
        ways: Sequence[Way],
        question: compare.Question,
        draw: Draw,
        *,
        open_model: OpenModel,
        on_end: Callable[[], object],
        after: Run | None = None,
    ) -> None:
        self.open_model = open_model
        runners = [compare.Runner(str(way), way.model, self.opener(index, way)) for index, way in enumerate(ways)]
        super().__init__(draw(runners, question), lambda _: on_end(), name="comparison", after=after)

    def opener(self, index: int, way: Way) -> Callable[[], Engine]:
        """What opens one of the models, in the thread."""

        def report(step: str, share: float) -> None:
            self.arrived.append(Progressed(index, step, share))

        def warn(reason: str) -> None:
            self.arrived.append(Warned(reason))

        return lambda: self.open_model(way.model, way.backend, report, warn).engine
