"""Keeps the KV cache of saved conversations on disk, so that their prompts need not be read again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chatapp.conversation.saving import Saving
from chatapp.generation import Engine
from chatapp.generation.contract import Resuming
from chatapp.generation.text.message import Message
from chatapp.history import HistoryError

if TYPE_CHECKING:  # `--help` must not import SQLite
    from chatapp.history import History


@contextmanager
def resuming(engine: Engine, saving: Saving) -> Iterator[list[Message]]:
    """Answer a conversation starting from its saved cache; the caller fills the list with the final messages."""
    said: list[Message] = []
    kept = engine if isinstance(engine, Resuming) and saving.history and saving.history.path else None
    if kept and saving.conversation is not None:
        kept.recall(str(saving.conversation))
    try:
        yield said
    finally:
        if kept and saving.conversation is not None:
            kept.retain(str(saving.conversation), said)


def write_states(engine: Engine, history: "History") -> None:
    """When a model is closed, save the caches of the conversations that still exist."""

    def is_there(name: str) -> bool:
        try:
            return bool(history.get(int(name)))
        except HistoryError:
            return False

    if isinstance(engine, Resuming) and history.path:
        engine.write_states(is_there)
