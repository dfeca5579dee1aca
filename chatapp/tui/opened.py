"""A model that has been opened, and what to tell about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.generation import Engine


@dataclass(frozen=True)
class Opened:
    """A model ready to answer, and what to tell about it."""

    engine: Engine
    name: str
    parameters: int
    seconds: float
    """How long opening took."""

    @property
    def place(self) -> str:
        """Backend, device and precision."""
        from chatapp.evaluation.compare import describe

        return describe(self.engine.placement)
