"""A comparison while it runs: a thread draws its events, the screen takes them in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event as Flag
from threading import Thread

from chatapp.evaluation import compare
from chatapp.generation import Engine
from chatapp.tui.opened import Opened

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


class Run(Thread):
    """Draws one comparison; begins when the one before has let its engine go."""

    def __init__(self, open_model: OpenModel, on_end: Callable[[], object], after: Run | None = None) -> None:
        super().__init__(name="comparison", daemon=True)
        self.open_model, self.on_end, self.after = open_model, on_end, after
        self.arrived: deque[compare.Event | Progressed | Warned] = deque()
        self.stopping, self.finished = Flag(), Flag()

    def begin(self, ways: Sequence[Way], question: compare.Question, draw: Draw) -> None:
        """Begin."""
        runners = [compare.Runner(str(way), way.model, self.opener(index, way)) for index, way in enumerate(ways)]
        self.events = draw(runners, question)
        self.start()

    def opener(self, index: int, way: Way) -> Callable[[], Engine]:
        """What opens one of the models, in the thread."""

        def report(step: str, share: float) -> None:
            self.arrived.append(Progressed(index, step, share))

        def warn(reason: str) -> None:
            self.arrived.append(Warned(reason))

        return lambda: self.open_model(way.model, way.backend, report, warn).engine

    def run(self) -> None:
        if self.after:
            self.after.join()
            self.after = None
        try:
            with closing(self.events) as events:
                while not self.stopping.is_set():
                    event = next(events, None)
                    if event is None:
                        break
                    self.arrived.append(event)
        finally:
            self.finished.set()
            self.on_end()

    def stop(self) -> None:
        """Ask for the end; the thread closes the stream after the token it is computing."""
        self.stopping.set()

    def take(self) -> list[compare.Event | Progressed | Warned]:
        """What arrived since the last call."""
        return [self.arrived.popleft() for _ in range(len(self.arrived))]
