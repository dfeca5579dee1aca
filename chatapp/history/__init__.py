"""Conversations, kept on this machine: saved as they grow, found again, exported and imported.

`History` and what it needs (sqlite3) are imported when first asked for.
"""

from typing import TYPE_CHECKING

from chatapp.history.records import (
    Conversation,
    ConversationNotFound,
    Found,
    HistoryError,
    Kind,
    Message,
    NotKept,
    NotUnderstood,
    Role,
)

if TYPE_CHECKING:
    from chatapp.history.history import History

__all__ = [
    "Conversation",
    "ConversationNotFound",
    "Found",
    "History",
    "HistoryError",
    "Kind",
    "Message",
    "NotKept",
    "NotUnderstood",
    "Role",
]


def __getattr__(name: str) -> object:
    if name == "History":
        from chatapp.history.history import History

        return History
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
