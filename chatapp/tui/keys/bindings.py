"""The keys of the table of commands, as Textual binds them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from chatapp.commands.actions import ACTIONS
from chatapp.commands.commands import Action

FIRST = (
    *("chat.stop", "chat.again", "chat.continue", "chat.new", "chat.sidebar", "chat.models", "chat.sampling"),
    *("chat.heat", "chat.latencies", "chat.search", "chat.jump", "app.quit", "app.help"),
)
"""The keys that the last line of the screen and the help show first, in this order."""


def bindings(owner: str) -> list[BindingType]:
    """The keys that work wherever one is: in the `app`, or in the `screen` with the conversations."""
    own = [one for one in ACTIONS if one.id and not one.within and one.action.startswith(f"{owner}.")]
    own.sort(key=lambda one: FIRST.index(one.id) if one.id in FIRST else len(FIRST))
    return [bind(one) for one in own]


def bind(action: Action) -> Binding:
    """The key of a command."""
    _, _, name = action.action.partition(".")
    description, shown = action.foot or action.title, bool(action.foot)
    return Binding(action.key, name, description, show=shown, priority=action.always, id=action.id)
