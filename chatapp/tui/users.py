"""What the screens begin with for a user: their store, history and files."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from chatapp.conversation.manner import Manner
from chatapp.settings import settings
from chatapp.tui.engines import Choice, Open
from chatapp.tui.opened import Opened
from chatapp.tui.start import Start

if TYPE_CHECKING:
    from chatapp.history import History
    from chatapp.placement.measuring import Measuring
    from chatapp.placement.record import Measurement
    from model_store import Store

PATIENCE = 0.5
"""Seconds that the screen waits for another program to end its writing: a conversation tries again by itself."""

NONE = Manner()


def start(model: str = "", manner: Manner = NONE) -> Start:
    """With what is asked for, in a new conversation; with nothing, where it was left."""
    chosen = settings.read()
    return Start(
        Choice(model or chosen.model),
        from_store,
        open_history,
        open_store,
        settings.home(),
        settings.choose_theme,
        peak_memory,
        measure,
        manner=manner,
        theme=chosen.theme,
        suspend=chosen.suspend,
        resume=not model and not manner.chosen,
    )


def from_store(choice: Choice) -> Open:
    """What opens a model of the user's store."""

    def open_model(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        start = time.perf_counter()
        from chatapp.placement.opening import open_engine
        from chatapp.placement.selection import PlacementOptions

        store = open_store()
        chosen = settings.read()
        wish = PlacementOptions(choice.backend or chosen.backend or None, objective=chosen.objective)
        engine = open_engine(store, choice.model, wish, on_progress=on_progress, on_fallback=warn)
        stored = store.get(choice.model)
        return Opened(engine, stored.name, stored.parameters, time.perf_counter() - start)

    return open_model


def measure(choice: Choice, on_end: Callable[[list[Measurement]], object]) -> Measuring:
    """What measures the backends of a model of the user's store, once all is quiet."""
    from chatapp.placement.measuring import Measuring
    from chatapp.placement.selection import PlacementOptions

    chosen = settings.read()
    wish = PlacementOptions(choice.backend or chosen.backend or None, objective=chosen.objective)
    return Measuring(open_store(), choice.model, wish, on_end=on_end)


def open_history() -> History | None:
    """The user's conversations, where they are to be kept."""
    from chatapp.history import History

    if not settings.read().history:
        return None
    history = History(settings.history())
    history.wait_at_most(PATIENCE)
    return history


def open_store() -> Store:
    """The user's models; imported late, for the first frame's sake."""
    from chatapp.workspace import open_store

    return open_store()


def peak_memory() -> int:
    """The memory this process has taken."""
    from chatapp.generation.memory import peak_memory

    return peak_memory()
