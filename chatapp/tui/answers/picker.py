"""Widget: a list to choose several names from, filtered by typing."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from chatapp.text.printable import printable
from chatapp.tui.widgets.rows import Rows

MOST = 4
"""Maximum names that can be chosen."""


class Picker(Rows):
    """Names, some of them chosen, in the order they were chosen."""

    ALLOW_SELECT = False
    HEADING = 1
    rows: list[str]
    """The names that match the filter."""
    BINDINGS = [
        Binding("space", "choose", "Choose", key_display="space", id="picker.choose"),
        Binding("enter", "screen.start", show=False),
    ]

    def __init__(self, names: Sequence[str], chosen: Sequence[str] = ()) -> None:
        super().__init__()
        self.names = tuple(names)
        self.chosen = [name for name in chosen if name in names][:MOST]
        self.narrow("")

    def on_key(self, event: events.Key) -> None:
        if event.key == "backspace" and self.filter:
            self.narrow(self.filter[:-1])
        elif event.is_printable and event.character and event.character != " ":
            self.narrow(self.filter + event.character.lower())
        else:
            return
        event.stop()

    def narrow(self, text: str) -> None:
        """Show only names that contain this text."""
        self.filter = text
        self.rows = [name for name in self.names if text in name.replace(" ", "").lower()]
        self.measure()
        self.go_to(0)
        self.refresh()

    def watch_cursor(self) -> None:
        self.reveal()
        self.refresh()

    def action_choose(self) -> None:
        """Choose the name at the cursor, or undo that."""
        if not self.rows:
            return
        name = self.rows[self.cursor]
        if name in self.chosen:
            self.chosen.remove(name)
        elif len(self.chosen) < MOST:
            self.chosen.append(name)
        else:
            self.notify(f"At most {MOST} side by side; space removes one.", severity="warning")
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.prevent_default()
        self.action_walk(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.prevent_default()
        self.action_walk(-3)

    def on_click(self, event: events.Click) -> None:
        if 0 < event.y <= len(self.rows) - self.scroll_offset.y:
            self.call_next(self.action_choose)  # after the cursor has moved there

    def render_line(self, y: int) -> Strip:
        content = self.head() if y == 0 else self.row(self.scroll_offset.y + y - 1)
        return Visual.to_strips(self, content, self.size.width, 1, self.visual_style, pad=True)[0]

    def head(self) -> Content:
        """How many are chosen, and the filter."""
        count = f" {len(self.chosen)} of at most {MOST} chosen"
        hint = "   type to filter, ⏎ to compare"
        typed = (f"   only names with “{self.filter}”", "$accent") if self.filter else (hint, "$muted")
        return Content.assemble((count, "$muted"), typed).truncate(self.size.width, ellipsis=True)

    def row(self, index: int) -> Content:
        """A line with a name."""
        if index >= len(self.rows):
            return Content(" no name matches" if not self.rows and index == 0 else "")
        name = self.rows[index]
        place = self.chosen.index(name) + 1 if name in self.chosen else None
        line = Content.assemble(
            (f" {place or '·'} ", "bold $accent" if place else "$muted"), (printable(name), "bold" * bool(place))
        )
        line = line.truncate(self.size.width, ellipsis=True)
        line += " " * (self.size.width - line.cell_length)
        return line.stylize_before("on $selection") if index == self.cursor and self.has_focus else line


class OneOf(Widget, can_focus=True):
    """A choice among a few values, changed with left and right."""

    BINDINGS = [
        Binding("left", "step(-1)", "Change", key_display="←→"),
        Binding("right,space", "step(1)", show=False),
    ]

    def __init__(self, label: str, values: Sequence[str], value: str) -> None:
        super().__init__()
        self.label, self.values, self.value = label, tuple(values), value

    def action_step(self, step: int) -> None:
        """Take the next or previous value, wrapping around."""
        self.value = self.values[(self.values.index(self.value) + step) % len(self.values)]
        self.refresh()

    def on_click(self) -> None:
        self.action_step(1)

    def render(self) -> Content:
        style = "bold $background on $accent" if self.has_focus else "$text on $surface"
        return Content.assemble((f" {self.label} ", "$muted"), (f" ‹ {self.value} › ", style))
