"""How a screen opens over the conversation: its class says in `over` how it begins, and what becomes of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from chatapp.commands.run import View

if TYPE_CHECKING:
    from textual.screen import Screen

    from chatapp.generation import Options
    from chatapp.generation.decoding.preview import Preview
    from chatapp.history import Found

Opening = tuple["Screen[Any]", Callable[[Any], Any]]  # Any: each screen has a result of its own
"""A screen, and what is done with its result, which is None where its user has left it."""


class Front(View, Protocol):
    """The chat screen, for the screens over it."""

    def typed(self) -> str:
        """The text that is typed, or else the last question."""

    def look(self, options: Options) -> Preview | None:
        """Preview the next token with some options; called in a thread, and nothing while the model writes."""

    def choose_options(self, options: Mapping[str, Any]) -> None: ...  # Any: what Options takes
    async def several(self, n: int) -> None: ...
    async def go_to(self, found: Found) -> None: ...
