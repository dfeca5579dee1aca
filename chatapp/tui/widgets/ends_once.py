"""Mixin: a screen that gives its result once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.await_complete import AwaitComplete

if TYPE_CHECKING:
    from textual.screen import Screen

    Base = Screen[Any]  # Any: each screen has a result of its own
else:
    Base = object  # as a screen it would hide the styles of the class that it is mixed into


class EndsOnce(Base):
    """Goes before the class of the screen.

    A key that is pressed twice may end a screen twice. Textual would call back twice, and take the screen below away.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:  # Any: as above
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()
