"""Conversations from files, as tests import and read them."""

import json

from chatapp.history import History
from chatapp.history.imported import Batch, read


def bring_in(history: History, content: object) -> Batch:
    """Import what a file would have."""
    batch = read(content if isinstance(content, str) else json.dumps(content), "a file")
    for one in batch.conversations:
        history.restore(one.conversation, one.messages)
    return batch


def said(history: History, conversation: int) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in history.messages(conversation)]
