"""Conversations as Open WebUI exports them: a list of chats, each with a tree of messages."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from chatapp.history import Message, NotUnderstood
from chatapp.history.imported import Batch, Imported, shorten, take
from chatapp.history.imported.tree import conversation, read_each, seconds

ASIDE = re.compile(r'<details type="(\w+)"[^>]*>.*?</details>\s*', re.DOTALL)
"""Reasoning and calls of tools within the text of an answer."""


def read(content: Sequence[Any], name: str) -> Batch:  # Any: JSON
    """All conversations that are understood; the others are named in `refused`."""
    return read_each(content, name, "title", _conversation)


def _conversation(facts: Any, where: str, left_out: Counter[str]) -> Imported:
    history = take(take(facts, "chat", dict, where), "history", dict, where)
    nodes: dict[str, tuple[object, Message | None]] = {}
    for key, one in take(history, "messages", dict, where).items():
        message = _message(one, f"message {shorten(key)} of {where}", left_out)
        nodes[key] = one.get("parentId"), message
    created = seconds(facts.get("created_at")) or time.time()
    updated = seconds(facts.get("updated_at")) or created
    end, title = history.get("currentId"), facts.get("title")
    return conversation(nodes, end, where, title=title, created=created, updated=updated)


def _message(one: Any, where: str, left_out: Counter[str]) -> Message | None:
    """A message; None where nothing in it is text between user and model."""
    role = take(one, "role", str, where)
    if role not in ("user", "assistant", "system"):
        raise NotUnderstood(f"{where} has the unknown role {shorten(role)}")
    text = take(one, "content", str, where)
    if role == "assistant":
        left_out.update(ASIDE.findall(text))
        text = ASIDE.sub("", text)
    for file in take(one, "files", list, where) if one.get("files") else ():
        left_out["file"] += 1
        name = file.get("name") if isinstance(file, dict) else ""
        text = f"{text}\n\n[{name or 'a file'} left out]".strip()
    model = str(one.get("model") or "") if role == "assistant" else ""
    return Message(0, 0, None, role, text, seconds(one.get("timestamp")), model=model) if text.strip() else None
