"""Mixins that mend what Textual does: each goes before the class that it is mixed into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.await_complete import AwaitComplete
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.geometry import Region
    from textual.screen import Screen
    from textual.widget import Widget

    AnyScreen = Screen[Any]  # Any: each screen has a result of its own
else:
    Widget = AnyScreen = object  # as a widget or a screen it would hide the styles of the class that it is mixed into


class Removable(Widget):
    """A widget with component styles that leaves a screen which goes on.

    Textual may paint a widget between its removal and the next layout. Its component styles are gone by then,
    and asking for them would crash the app (textual#6528).
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        if not self.is_attached:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)


class EndsOnce(AnyScreen):
    """A screen that gives its result once.

    A key that is pressed twice may end a screen twice: `Screen.dismiss` then calls back twice, and takes the screen
    below away, whichever that is.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:  # Any: as above
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()
