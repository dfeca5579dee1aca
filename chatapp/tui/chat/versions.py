"""Several versions of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.history import Message


def version(said: Message) -> str:
    """Which one of several versions a message is."""
    place, count = said.versions.index(said.id) + 1, len(said.versions)
    return f"‹ {place} / {count} ›" if count > 1 else ""
