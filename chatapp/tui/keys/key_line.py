"""Widget: the line of keys that work now; a click presses one."""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content

from chatapp.tui.widgets.buttons import Buttons, as_button

FIRST = ("back", "stop", "submit", "go_on")
"""Actions whose keys must be visible on a narrow screen too."""


class Keys(Buttons):
    """A footer in one widget: Textual's mounts a widget per key, which would slow the first frame."""

    shown = Content()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.look_again)

    def look_again(self, _: object) -> None:
        """Repaint if the keys have changed; called after every key press."""
        if (line := self.line()) != self.shown:
            self.shown = line
            self.refresh()

    def render(self) -> Content:
        if self.shown.cell_length != self.size.width:  # the width has changed since
            self.shown = self.line()
        return self.shown

    def line(self) -> Content:
        """The active keys that fit."""
        active = self.screen.active_bindings
        shown = {found.binding.action: found.binding for found in active.values() if found.binding.show}
        palette = Binding(self.app.COMMAND_PALETTE_BINDING, "command_palette", "Commands", key_display="^P")
        right = Content.assemble(*self.key(palette), " ")
        left = Content(" ")
        first = [shown.pop(action) for action in FIRST if action in shown]
        named = set[str]()
        for binding in (*first, *shown.values()):
            if (name := self.app.get_key_display(binding)) in named:
                continue  # the focused widget's binding comes first and hides this one
            named.add(name)
            longer = left + Content.assemble(*self.key(binding), "  ")
            if longer.cell_length + right.cell_length > self.size.width:
                break
            left = longer
        return left + " " * max(0, self.size.width - left.cell_length - right.cell_length) + right

    def key(self, binding: Binding) -> tuple[Content, Content]:
        """A key and its description."""
        name = as_button(binding.key, self.app.get_key_display(binding), "bold $accent")
        return name, as_button(binding.key, f" {binding.description}", "$muted")
