"""What the screen needs of a loaded model: `chatapp.generation.Engine` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from chatapp.conversation.engine import Engine as Answering

if TYPE_CHECKING:
    from backends import Placement
    from chatapp.generation import Message
    from chatapp.generation.decoding.preview import Distribution


class Engine(Answering, Protocol):
    """Answers, and tells where."""

    @property
    def placement(self) -> Placement: ...
    @property
    def can_infill(self) -> bool: ...
    def next_token(self, prompt: Sequence[Message] | str, wanted: Callable[[], bool] = ...) -> Distribution | None: ...
