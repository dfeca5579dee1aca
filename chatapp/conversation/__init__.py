"""Conversations between a user and a model: a tree of messages, saved as it grows if there is a history.

The names below are imported on first use, because they bring generation and history with them.
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
