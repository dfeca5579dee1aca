"""What mends Textual: mixins, each of which goes before the class that it is mixed into, and a list."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual._compositor import Compositor
from textual.await_complete import AwaitComplete
from textual.errors import NoWidget
from textual.events import Click
from textual.strip import Strip
from textual.widgets import OptionList, TextArea

if TYPE_CHECKING:
    from textual._compositor import ReflowResult
    from textual._widget_navigation import Direction
    from textual.geometry import Offset, Region, Size
    from textual.layout import DockArrangeResult
    from textual.screen import Screen
    from textual.selection import Selection
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


class EndsInTime(Widget):
    """A container that is scrolled by the height it has in a frame; Textual takes that of the frame before."""

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        self._container_size = self._container_size.with_height(size.height)
        arrangement = super().arrange(size, optimal)
        end = max(0, arrangement.spatial_map.total_region.bottom - size.height)
        if self.scroll_y > end:
            self.set_scroll(None, end)
            self.vertical_scrollbar.position = end
        return arrangement


class Choices(OptionList):
    """A list whose pages can be turned in a terminal that has no room for a line of it: Textual would crash."""

    def _move_page(self, direction: Direction) -> None:
        if self._lines:
            super()._move_page(direction)


class KeepsUp(AnyScreen):
    """A screen that paints when the terminal has taken the frame before, so that on a slow line the newest comes next.

    Textual lets thirty wait, and then stands still.
    """

    def _on_timer_update(self) -> None:
        writer = getattr(self.app._driver, "_writer_thread", None)  # not all drivers have one
        if writer is None or writer._queue.empty():
            super()._on_timer_update()


class Selected(KeepsUp):
    """A screen whose texts may be removed, or lose lines, while they are selected; Textual would crash over these.

    The first of two quick clicks on a notification takes it away, which is painted a little longer.
    """

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        with suppress(NoWidget):
            if self.get_widget_at(x, y)[0].is_attached:
                return super().get_widget_and_offset_at(x, y)
        return None, None

    def get_selected_text(self) -> str | None:
        self.selections = {widget: part for widget, part in self.selections.items() if is_there(widget, part)}
        return super().get_selected_text()


def is_there(widget: Widget, part: Selection) -> bool:
    """Whether what was selected in a widget can still be found."""
    try:
        widget.get_selection(part)
    except IndexError:
        return False
    return True


class LaidOutOnce(Selected):
    """A screen that lays its widgets out and paints them once for each change; Textual 8.2.8 does two or three times.

    It tells a widget its size as if that were a change to lay out and to paint, takes what a widget asked for before it
    was mounted for new, and forgets that it has just placed all of them as soon as it looks for one.
    """

    _asking: set[Widget] | None = None
    """What asked for the layout that is being done; None while none is."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # Any: of whichever screen
        super().__init__(*arguments, **named)
        self._compositor = Placing()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self._asking = {widget for widget in self._compositor.widgets if widget._layout_required}
        super()._refresh_layout(size, scroll)
        self._asking = None

    def _compositor_refresh(self) -> None:
        """Paint, which follows a layout at once: before those hear of it who may ask for another."""
        if self._asking is not None:
            for widget in self._compositor.widgets - self._asking:
                if not widget._scrollbar_changes:  # bars that come or go take another layout
                    widget._layout_required = False
            self._asking = None
            if not self.app._batch_count:
                told = {widget for widget in self._compositor.visible_widgets if widget._repaint_required}
                self._compositor.update_widgets(told)
                for widget in told:
                    widget._repaint_required = False
        super()._compositor_refresh()


class EndsOnce(LaidOutOnce):
    """A screen that gives its result once.

    A key that is pressed twice may end a screen twice: `Screen.dismiss` then calls back twice, and takes the screen
    below away, whichever that is.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:  # Any: as above
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()

    def on_click(self, event: Click) -> None:
        """Leave a window with a click beside it, as escape does; not where a text is written in it."""
        beside = self.is_modal and self.is_current and self.get_widget_at(*event.screen_offset)[0] is self
        if beside and not self.query(TextArea):
            self.app.call_later(self.app.simulate_key, "escape")  # one that is pressed here would end here


class Placing(Compositor):
    """A compositor that knows after a layout that it knows where all widgets are."""

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        found = super().reflow(parent, size)
        self._full_map_invalidated = False
        return found
