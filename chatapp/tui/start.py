"""What the app begins with: where models, conversations and the user's files come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.conversation.manner import Manner
from chatapp.tui.engines import Choice, Open

if TYPE_CHECKING:
    from chatapp.history import History
    from chatapp.placement.measuring import Measuring
    from chatapp.placement.record import Measurement
    from model_store import Store


@dataclass(frozen=True)
class Start:
    """Everything that the screens need from outside; tests give other things than the user's."""

    choice: Choice
    """The model of new conversations."""
    open_model: Callable[[Choice], Open]
    open_history: Callable[[], History | None]
    """None where conversations are not to be kept; raises HistoryError where they cannot be."""
    open_store: Callable[[], Store]
    home: Path
    """The folder of the user's files: keys, themes, presets, system prompts."""
    choose_theme: Callable[[str], None]
    """Keeps a theme for the next start; raises SettingsError."""
    memory: Callable[[], int]
    """Bytes that this process has taken at most."""
    measure: Callable[[Choice, Callable[[list[Measurement]], object]], Measuring] | None = None
    """What measures a model's backends while nobody waits, and tells the ranking; None: nothing does."""
    manner: Manner = Manner()
    """How answers in new conversations are to be."""
    theme: str = "midnight"
    suspend: bool = True
    """Whether Ctrl+Z suspends the app where there is nothing to undo."""
    resume: bool = True
    """Whether to go on with the last conversation."""
