"""Where the time of a turn goes."""

from time import perf_counter


class Stopwatch:
    """Tells the seconds from lap to lap and adds them up; `resume` leaves out what passed in between."""

    def __init__(self, started: float):
        self.last = perf_counter()
        self.total = self.last - started
        """Seconds of the turn so far, preparing its prompt included."""

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = perf_counter()
        passed, self.last = now - self.last, now
        self.total += passed
        return passed

    def resume(self) -> None:
        """What passed since the last lap was not ours."""
        self.last = perf_counter()
