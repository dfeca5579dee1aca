"""Read trees of messages in which each node names its parent by a key."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chatapp.history import Conversation, Message, NotUnderstood
from chatapp.history.imported import Batch, Imported, shorten

Understand = Callable[[Any, str, Counter[str]], Imported]
"""Reads one conversation, given its place for errors, and counts what is left out."""
Nodes = Mapping[str, tuple[object, Message | None]]
"""The nodes by key: the parent's key, None for a root, and the node's message, if it has one."""


def read_each(content: Sequence[Any], name: str, title: str, understand: Understand) -> Batch:  # Any: JSON
    """Read all conversations that are understood; `title` is the field of their titles. The others are in `refused`."""
    batch = Batch()
    for place, facts in enumerate(content, 1):
        called = facts.get(title) if isinstance(facts, dict) else None
        where = f"conversation {place} of {name}" + (f" ({shorten(called)})" if called else "")
        left_out: Counter[str] = Counter()
        try:
            batch.conversations.append(understand(facts, where, left_out))
        except NotUnderstood as error:
            batch.refused.append(str(error))
        else:
            batch.left_out += left_out
    return batch


def conversation(nodes: Nodes, end: object, where: str, *, title: object, created: float, updated: float) -> Imported:
    """The conversation of a tree whose shown branch ends at node `end`."""
    messages: list[Message] = []
    kept: dict[object, int | None] = {}
    """Each node's message, or that of its nearest ancestor with one."""
    for key in _in_order(nodes, where):
        parent, message = nodes[key]
        kept[key] = above = kept.get(parent)
        if message:
            kept[key] = number = len(messages) + 1
            messages.append(replace(message, id=number, parent=above, created=message.created or created))
    last = messages[-1].id if messages else None
    leaf = kept.get(end, last) if isinstance(end, str) else last
    model = next((message.model for message in reversed(messages) if message.model), "")
    words = " ".join(str(title or "").split())
    return Imported(Conversation(0, words, "chat", model, created, updated, len(messages), leaf), messages)


def _in_order(nodes: Nodes, where: str) -> list[str]:
    """The keys, each after its parent's; raises for trees without a root."""
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for key, (parent, _) in nodes.items():
        if parent == key or not isinstance(parent, str | None) or (parent is not None and parent not in nodes):
            raise NotUnderstood(f"{where} has a message {shorten(key)} whose parent is missing")
        children[parent].append(key)
    order = list(children[None])
    for key in order:  # grows during the loop
        order += children[key]
    if len(order) < len(nodes):
        raise NotUnderstood(f"{where} has messages that follow each other in a circle")
    return order


def seconds(value: object) -> float:
    """Seconds since 1970, or 0 where there is no time that calendars know."""
    return float(value) if isinstance(value, int | float) and 0 < value < 4e9 else 0.0
