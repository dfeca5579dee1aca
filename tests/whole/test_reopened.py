"""A conversation on the screen, left and opened again: what the model had read of it is not read again."""

from pathlib import Path

from chatapp.history import History
from support.checkpoints import MakeCheckpoint
from support.tmux import Terminal

LONG = "What does the quick brown fox do when it jumps over the lazy dog? " * 5


def ask(home: Path, text: str, count: int, *command: str) -> int:
    """Ask in a terminal, leave, and tell how many tokens of the prompt the cache held."""
    with Terminal("-m", "chatapp", *command, size=(100, 30)) as terminal:
        terminal.wait_for("● ready")
        terminal.type(text)
        terminal.press("Enter")
        terminal.wait_for("tok/s", "first token")
        terminal.press("C-q")
        assert terminal.left() == 0
    with History(home / "history.db") as history:
        messages = history.messages(1)
        assert len(messages) == count
        return int(messages[-1].usage["cached_tokens"])


def test_a_conversation_of_the_screen_is_not_read_again(home: Path, checkpoint: MakeCheckpoint) -> None:
    model = str(checkpoint(chats=True))
    assert ask(home, LONG, 2, "chat", model) == 0
    assert [path.name for path in (home / "states").iterdir()] == ["1.state"]
    assert ask(home, "and then?", 4) >= 64
