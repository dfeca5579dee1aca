"""What tests find in a database of conversations, and put there."""

from pathlib import Path

from chatapp.history import Conversation, History


def conversations(database: Path) -> list[Conversation]:
    with History(database) as history:
        return list(history.list())


def said(database: Path, conversation: int = 1) -> list[tuple[str, str]]:
    with History(database) as history:
        return [(message.role, message.text) for message in history.messages(conversation)]


def greet(database: Path, *texts: str) -> None:
    """A conversation for each text."""
    with History(database) as history:
        for text in texts:
            history.add(history.create(model="tiny").id, "user", text, parent=None)
