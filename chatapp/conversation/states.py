"""What the model's cache held of a conversation, kept beside it on the disk: it need not be read again.

Of a conversation that is not kept, nothing is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chatapp.conversation.saving import Saving
from chatapp.generation import Engine
from chatapp.generation.contract import Resuming
from chatapp.generation.text.message import Message
from chatapp.history import HistoryError

if TYPE_CHECKING:  # SQLite, which nobody needs who only asks for help
    from chatapp.history import History


@contextmanager
def resuming(engine: Engine, saving: Saving) -> Iterator[list[Message]]:
    """Inside, a conversation is answered, from what the disk has of it; the list is to be what was said in the end."""
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
    """Write what the cache holds of conversations that are still there, when a model is let go."""

    def is_there(name: str) -> bool:
        try:
            return bool(history.get(int(name)))
        except HistoryError:
            return False

    if isinstance(engine, Resuming) and history.path:
        engine.write_states(is_there)
