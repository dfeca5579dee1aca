"""Conversations that begin as another one did."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from chatapp.history.records import Conversation, Message

if TYPE_CHECKING:
    from chatapp.history.history import History


def fork(history: "History", conversation: int, messages: Sequence[Message]) -> Conversation:
    """Another conversation that begins with these messages of one, each after the one before."""
    copied: list[Message] = []
    for message in messages:
        copied.append(replace(message, parent=copied[-1].id if copied else None))
    origin = history.get(conversation)
    title = forked(origin.title, {one.title for one in history.list()})
    begun = replace(origin, title=title, leaf=copied[-1].id, updated=time.time())
    return history.restore(begun, copied, {message.id: history.tokens(message.id) for message in copied})


def forked(title: str, titles: set[str]) -> str:
    """The title of a fork, by which it is told from its origin and from other forks."""
    origin = re.sub(r" \(fork(?: \d+)?\)$", "", title)
    names = (f"{origin} (fork{f' {number}' if number > 1 else ''})" for number in count(1))
    return next(name for name in names if name not in titles)
