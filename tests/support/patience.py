"""Patience: how long tests wait for what will be."""

import time
from collections.abc import Callable

PATIENCE = 100.0
"""Seconds for which anything is waited for: a busy machine may take a while."""


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for something that nobody tells."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what or condition}"
        time.sleep(0.005)
