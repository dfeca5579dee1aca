"""Fixes for Textual: mixins, to be put before the class they fix, and a list."""

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
    Widget = AnyScreen = object  # as real bases they would hide the styles of the class they are mixed into


class Removable(Widget):
    """A widget with component styles that can be removed from a screen.

    Textual may paint a widget between its removal and the next layout, when its component styles are gone,
    and looking them up would crash the app (textual#6528).
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        if not self.is_attached:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)


class EndsInTime(Widget):
    """A container that scrolls by its height in the current frame; Textual uses that of the previous one."""

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        self._container_size = self._container_size.with_height(size.height)
        arrangement = super().arrange(size, optimal)
        end = max(0, arrangement.spatial_map.total_region.bottom - size.height)
        if self.scroll_y > end:
            self.set_scroll(None, end)
            self.vertical_scrollbar.position = end
        return arrangement


class Choices(OptionList):
    """An option list whose pages can be turned even if no line is visible, where Textual crashes."""

    def _move_page(self, direction: Direction) -> None:
        if self._lines:
            super()._move_page(direction)


class KeepsUp(AnyScreen):
    """A screen that paints only after the terminal has taken the previous frame, so that a slow line gets the newest.

    Textual queues up to thirty frames, and then blocks.
    """

    def _on_timer_update(self) -> None:
        writer = getattr(self.app._driver, "_writer_thread", None)  # some drivers have none
        if writer is None or writer._queue.empty():
            super()._on_timer_update()


class Selected(KeepsUp):
    """A screen whose widgets may be removed or lose lines while their text is selected, where Textual crashes.

    The first of two quick clicks on a notification removes it, though it is painted a little longer.
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
    """Whether a widget still has its selected text."""
    try:
        widget.get_selection(part)
    except IndexError:
        return False
    return True


class LaidOutOnce(Selected):
    """A screen that lays out and paints once per change; Textual 8.2.8 does so two or three times.

    Textual treats telling a widget its size as a change, treats requests from before mounting as new ones,
    and forgets that it has just placed all widgets as soon as it looks one up.
    """

    _asking: set[Widget] | None = None
    """The widgets that requested the current layout; None outside of one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # Any: of whichever screen
        super().__init__(*arguments, **named)
        self._compositor = Placing()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self._asking = {widget for widget in self._compositor.widgets if widget._layout_required}
        super()._refresh_layout(size, scroll)
        self._asking = None

    def _compositor_refresh(self) -> None:
        """Paint right after a layout, before widgets that request another one are notified."""
        if self._asking is not None:
            for widget in self._compositor.widgets - self._asking:
                if not widget._scrollbar_changes:  # scroll bars that appear or vanish need another layout
                    widget._layout_required = False
            self._asking = None
            if not self.app._batch_count:
                told = {widget for widget in self._compositor.visible_widgets if widget._repaint_required}
                self._compositor.update_widgets(told)
                for widget in told:
                    widget._repaint_required = False
        super()._compositor_refresh()


class EndsOnce(LaidOutOnce):
    """A screen that can be dismissed only once.

    Pressing a key twice may dismiss a screen twice: Textual would then call back twice and also pop the screen below.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete:  # Any: as above
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()

    def on_click(self, event: Click) -> None:
        """A click beside a window closes it like escape, unless it contains a text area."""
        beside = self.is_modal and self.is_current and self.get_widget_at(*event.screen_offset)[0] is self
        if beside and not self.query(TextArea):
            self.app.call_later(self.app.simulate_key, "escape")  # later: simulated here it would go to the wrong place


class Placing(Compositor):
    """A compositor that knows right after a layout that its map is complete."""

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        found = super().reflow(parent, size)
        self._full_map_invalidated = False
        return found
