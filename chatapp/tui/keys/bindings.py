"""The keys of the action table as Textual bindings."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from chatapp.commands.actions import ACTIONS

FIRST = (
    *("chat.stop", "chat.again", "chat.continue", "chat.new", "chat.sidebar", "chat.models", "chat.sampling"),
    *("chat.heat", "chat.latencies", "chat.search", "chat.jump", "app.quit", "app.help"),
)
"""The keys shown first in the line of keys and in the help."""


def bindings(owner: str) -> list[BindingType]:
    """The bindings of the `app`, or of the chat `screen`."""
    own = [one for one in ACTIONS if one.id and not one.within and one.action.startswith(f"{owner}.")]
    own.sort(key=lambda one: FIRST.index(one.id) if one.id in FIRST else len(FIRST))
    return [
        Binding(
            *(one.key, one.action.partition(".")[2], one.foot or one.title),
            show=bool(one.foot),
            priority=one.always,
            id=one.id,
        )
        for one in own
    ]
