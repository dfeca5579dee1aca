"""Programs that use the cores beside ours, scripted."""

import time

from backends.processor import Neighbours


class Crowd(Neighbours):
    """Neighbours who use as many cores as they are told."""

    def __init__(self, cores: float):
        self.start, self.used = time.monotonic(), cores

    def cores(self) -> float:
        return self.used
