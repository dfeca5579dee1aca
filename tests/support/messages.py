"""Messages of a history, as tests write them."""

from collections.abc import Mapping
from typing import Any

from chatapp.generation import Alternative, Token
from chatapp.generation.text.message import Message as Said
from chatapp.history import History, Message

TOKENS = (
    Token(7, "good", -0.25, (Alternative(7, "good", -0.25), Alternative(8, "bad", -2.5)), 0.0125),
    Token(9, " day", None, (), 0.013),
)
TALK = [Said("user", " Hello, world! "), Said("assistant", "hello</think>fox"), Said("user", "x" * 1000)]
"""A conversation for chat templates."""


def ask(history: History, *texts: str, conversation: int | None = None, parent: int | None = None) -> list[Message]:
    """Messages one after the other, the first of them the user's."""
    conversation = conversation or history.create(model="tiny").id
    said: list[Message] = []
    for place, text in enumerate(texts):
        role = "assistant" if place % 2 else "user"
        added = history.add(conversation, role, text, parent=parent)  # type: ignore[arg-type]  # one of the two
        parent = added.id
        said.append(added)
    return said


def begin(history: History, asked: Message, options: Mapping[str, Any] | None = None) -> Message:
    """An empty reply."""
    reply = Message(0, asked.conversation, asked.id, "assistant", "", 1.0, finished=False, options=options or {})
    return history.put(reply)


def texts(history: History, conversation: int) -> list[str]:
    return [message.text for message in history.messages(conversation)]
