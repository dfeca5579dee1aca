"""Read ChatGPT's export: conversations.json, a tree of nodes each."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from chatapp.history import Message, NotUnderstood
from chatapp.history.imported import Batch, Imported, shorten, take
from chatapp.history.imported.tree import conversation, read_each, seconds

NOT_TEXT = {
    "code",
    "computer_output",
    "execution_output",
    "model_editable_context",
    "reasoning_recap",
    "sonic_webpage",
    "system_error",
    "tether_browsing_display",
    "tether_quote",
    "thoughts",
    "user_editable_context",
}
"""Kinds of content that are left out, as they are no words between user and model: tools, reasoning, settings."""
ENDS = {"stop": "stop", "max_tokens": "length", "interrupted": "cancelled"}


def read(content: Sequence[Any], name: str) -> Batch:  # Any: JSON
    """All conversations that are understood; the others are named in `refused`."""
    return read_each(content, name, "title", _conversation)


def _conversation(facts: Any, where: str, left_out: Counter[str]) -> Imported:
    nodes: dict[str, tuple[object, Message | None]] = {}
    for key, node in take(facts, "mapping", dict, where).items():
        if isinstance(node, dict):
            nodes[key] = node.get("parent"), _message(node, f"message {shorten(key)} of {where}", left_out)
        else:
            nodes[key] = key, None  # in no tree
    created = seconds(facts.get("create_time")) or time.time()
    updated = seconds(facts.get("update_time")) or created
    end, title = facts.get("current_node"), facts.get("title")
    return conversation(nodes, end, where, title=title, created=created, updated=updated)


def _message(node: Any, where: str, left_out: Counter[str]) -> Message | None:
    """The message of a node; None if it has none, or nothing that is text between user and model."""
    message = node.get("message")
    if message is None:
        return None
    role = take(take(message, "author", dict, where), "role", str, where)
    content = take(message, "content", dict, where)
    kind = take(content, "content_type", str, where)
    details = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
    if kind not in {"text", "multimodal_text", *NOT_TEXT}:
        raise NotUnderstood(f"{where} has the unknown content type {shorten(kind)}")
    if role not in ("user", "assistant", "system", "tool"):
        raise NotUnderstood(f"{where} has the unknown role {shorten(role)}")
    if kind in NOT_TEXT:
        left_out[kind] += 1
        return None
    text = _text(content, where, left_out)
    if not text.strip():
        return None
    aside = "message of a tool" if role == "tool" else ""
    if message.get("recipient") not in (None, "all"):
        aside = "message to a tool"
    if details.get("is_visually_hidden_from_conversation"):
        aside = "hidden message"
    if aside:
        left_out[aside] += 1
        return None
    finish = details.get("finish_details")
    end = ENDS.get(str(finish.get("type"))) if isinstance(finish, dict) else None
    model = str(details.get("model_slug") or "") if role == "assistant" else ""
    return Message(0, 0, None, role, text, seconds(message.get("create_time")), True, end, model)


def _text(content: dict[str, Any], where: str, left_out: Counter[str]) -> str:
    """The text of a message; pictures and the like leave their name in it."""
    pieces = []
    for part in take(content, "parts", list, where):
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):  # the transcript of a voice chat
            pieces.append(part["text"])
        elif isinstance(part, dict):
            name = str(part.get("content_type", "an object without a content type"))
            left_out[name] += 1
            pieces.append(f"[{name} left out]")
        elif part is not None:
            raise NotUnderstood(f"{where} has the part {shorten(part)}, which is not text")
    return "\n".join(pieces)
