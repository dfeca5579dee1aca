"""Widget: texts that act as keys when clicked."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.style import Style
from textual.widgets import Static


def as_button(key: str, label: str, look: str) -> Content:
    """A text that presses a key when clicked, for `Buttons`."""
    return Content.styled(label, look).stylize(Style.from_meta({"key": key}))


class Buttons(Static):
    """Clickable keys, made by `as_button`."""

    def on_click(self, event: events.Click) -> None:
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)
