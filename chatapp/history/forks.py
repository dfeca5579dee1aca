"""Conversations that begin as another one did."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chatapp.history.records import Conversation, Message

if TYPE_CHECKING:
    from chatapp.history.history import History


def fork(history: "History", conversation: int, messages: Sequence[Message]) -> Conversation:
    """Another conversation that begins with these messages of one, each after the one before."""
    copied: list[Message] = []
    for message in messages:
        copied.append(replace(message, parent=copied[-1].id if copied else None))
    begun = replace(history.get(conversation), leaf=copied[-1].id, updated=time.time())
    return history.restore(begun, copied, {message.id: history.tokens(message.id) for message in copied})
