"""The keys of the table of commands, as Textual binds them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from chatapp.commands.actions import ACTIONS

FIRST = (
    *("chat.stop", "chat.again", "chat.continue", "chat.new", "chat.sidebar", "chat.models", "chat.sampling"),
    *("chat.heat", "chat.latencies", "chat.search", "chat.jump", "app.quit", "app.help"),
)
"""The keys that the last line of the screen and the help show first, in this order."""


def bindings(owner: str) -> list[BindingType]:
    """The keys that work wherever one is: in the `app`, or in the `screen` with the conversations."""
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
