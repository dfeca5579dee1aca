"""Widget: the keys that work now, in one line; a click on one presses it."""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content

from chatapp.tui.widgets.buttons import Buttons, as_button

FIRST = ("back", "stop", "submit", "go_on")
"""The actions whose keys must be found on a narrow screen, too."""


class Keys(Buttons):
    """A footer in one widget: Textual's own mounts one for each key, which the first frame would wait for."""

    shown = Content()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.look_again)

    def look_again(self, _: object) -> None:
        """Paint the keys where they are others: they are looked at with each letter that is typed."""
        if self.line() != self.shown:
            self.refresh()

    def render(self) -> Content:
        self.shown = self.line()
        return self.shown

    def line(self) -> Content:
        """The keys that work now, as far as they fit."""
        active = self.screen.active_bindings
        shown = {found.binding.action: found.binding for found in active.values() if found.binding.show}
        palette = Binding(self.app.COMMAND_PALETTE_BINDING, "command_palette", "Commands", key_display="^P")
        right = Content.assemble(*self.key(palette), " ")
        left = Content(" ")
        first = [shown.pop(action) for action in FIRST if action in shown]
        named = set[str]()
        for binding in (*first, *shown.values()):  # a narrow screen leaves the last ones to the palette
            if (name := self.app.get_key_display(binding)) in named:
                continue  # what has the focus comes first, and takes the key
            named.add(name)
            longer = left + Content.assemble(*self.key(binding), "  ")
            if longer.cell_length + right.cell_length > self.size.width:
                break
            left = longer
        return left + " " * max(0, self.size.width - left.cell_length - right.cell_length) + right

    def key(self, binding: Binding) -> tuple[Content, Content]:
        """A key and what it does."""
        name = as_button(binding.key, self.app.get_key_display(binding), "bold $accent")
        return name, as_button(binding.key, f" {binding.description}", "$muted")
