"""How a screen opens over the chat screen: its class method `over` gives the screen and a callback for its result."""

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
"""A screen, and the callback for its result, which is None if the user cancelled."""


class Front(View, Protocol):
    """The chat screen, as the screens over it see it."""

    def typed(self) -> str:
        """The text in the prompt, or else the last question."""

    def look(self, options: Options) -> Preview | None:
        """Preview the next token under some options; called in a thread. None while the model writes."""

    def choose_options(self, options: Mapping[str, Any]) -> None: ...  # Any: what Options takes
    async def several(self, n: int) -> None: ...
    async def go_to(self, found: Found) -> None: ...
