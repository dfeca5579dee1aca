"""Conversations between a user and a model: a tree of messages, saved as it grows where that is wanted.

They are imported when first asked for, as are generation and history, which they stand on.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.conversation.conversation import Dialogue
    from chatapp.conversation.setup import Setup, WhenFull
    from chatapp.conversation.turn import Turn, is_cut_off

__all__ = ["Dialogue", "Setup", "Turn", "WhenFull", "is_cut_off"]

HOMES = {"Dialogue": "conversation", "Setup": "setup", "Turn": "turn", "WhenFull": "setup", "is_cut_off": "turn"}


def __getattr__(name: str) -> object:
    if home := HOMES.get(name):
        return getattr(import_module(f"chatapp.conversation.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
