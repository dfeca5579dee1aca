"""Read claude.ai's export: conversations.json, lists of messages that each name the previous one."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from chatapp.history import Message, NotUnderstood, Role
from chatapp.history.imported import Batch, Imported, shorten, take, with_thinking
from chatapp.history.imported.tree import conversation, read_each

ROLES: dict[str, Role] = {"human": "user", "assistant": "assistant"}
NOTHING = "00000000-0000-"
"""The beginning of the id that stands for a first message's parent."""


def read(content: Sequence[Any], name: str) -> Batch:  # Any: JSON
    """All conversations that are understood; the others are named in `refused`."""
    return read_each(content, name, "name", _conversation)


def _conversation(facts: Any, where: str, left_out: Counter[str]) -> Imported:
    nodes: dict[str, tuple[object, Message | None]] = {}
    before = None
    """The previous message in the list: older exports have no parents."""
    for place, one in enumerate(take(facts, "chat_messages", list, where), 1):
        key: str = take(one, "uuid", str, f"message {place} of {where}")
        if key in nodes:
            raise NotUnderstood(f"{where} has two messages {shorten(key)}")
        parent = one.get("parent_message_uuid", before)
        if isinstance(parent, str) and parent.startswith(NOTHING):
            parent = None
        nodes[key] = parent, _message(one, f"message {place} of {where}", left_out)
        before = key
    created = _time(facts.get("created_at")) or time.time()
    updated = _time(facts.get("updated_at")) or created
    end = facts.get("current_leaf_message_uuid") or before
    return conversation(nodes, end, where, title=facts.get("name"), created=created, updated=updated)


def _message(one: Any, where: str, left_out: Counter[str]) -> Message | None:
    """A message; None where nothing in it is text between user and model."""
    sender = take(one, "sender", str, where)
    if sender not in ROLES:
        raise NotUnderstood(f"{where} has the unknown sender {shorten(sender)}")
    said, thought = [], []
    for block in _objects(one, "content", where):
        kind = take(block, "type", str, where)
        if kind == "text":
            said.append(take(block, "text", str, where))
        elif kind == "thinking":
            thought.append(take(block, "thinking", str, where))
        else:
            left_out[kind] += 1
    if not said and one.get("text"):
        said.append(take(one, "text", str, where))
    for attached in _objects(one, "attachments", where):
        name = attached.get("file_name")
        said.append((f"{name}:\n" if name else "") + str(attached.get("extracted_content") or ""))
    for file in _objects(one, "files", where):
        left_out["file"] += 1
        said.append(f"[{file.get('file_name') or 'a file'} left out]")
    text = with_thinking("\n\n".join(part for part in said if part.strip()), "\n\n".join(thought))
    return Message(0, 0, None, ROLES[sender], text, _time(one.get("created_at"))) if text else None


def _objects(one: Any, key: str, where: str) -> Sequence[dict[str, Any]]:
    """The objects in a list that may be missing."""
    found = take(one, key, list, where) if one.get(key) is not None else ()
    if not all(isinstance(each, dict) for each in found):
        raise NotUnderstood(f"{where} has {key!r}: {shorten(found)}, which cannot be")
    return found


def _time(value: object) -> float:
    """Seconds since 1970; 0 for missing or impossible times."""
    try:
        found = datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
    return found if 0 < found < 4e9 else 0.0
