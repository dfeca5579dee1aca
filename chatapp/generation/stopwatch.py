"""Where the time of a turn goes."""

from time import perf_counter

from chatapp.generation.delta import Timings


class Stopwatch:
    """Adds up time by phase, from lap to lap; `resume` leaves out what passed in between."""

    def __init__(self, started: float):
        self.last = perf_counter()
        self.total = self.last - started
        """Seconds of the turn so far, preparing its prompt included."""
        self.spent = dict.fromkeys(("prefill", "decode", "sampling", "detokenising"), 0.0)

    def lap(self, phase: str) -> None:
        """The time since the last lap went into this phase."""
        now = perf_counter()
        passed, self.last = now - self.last, now
        self.spent[phase] += passed
        self.total += passed

    def resume(self) -> None:
        """What passed since the last lap was not ours."""
        self.last = perf_counter()

    def timings(self) -> Timings:
        """What was spent since this was last asked."""
        timings = Timings(**self.spent)
        self.spent = dict.fromkeys(self.spent, 0.0)
        return timings
