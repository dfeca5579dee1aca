"""Mixin: a widget with component styles that leaves a screen which goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.strip import Strip

if TYPE_CHECKING:
    from textual.geometry import Region
    from textual.widget import Widget
else:
    Widget = object  # as a widget it would hide the styles of the class that it is mixed into


class Removable(Widget):
    """Goes before the class of the widget.

    Textual may paint a widget between its removal and the next layout. Its component styles are gone by then,
    and asking for them would crash the app (textual#6528).
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        if not self.is_attached:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)
