"""docs/screen.md names every key that can be rebound, and every command."""

import re
from pathlib import Path

from chatapp.commands.actions import SLASHES
from chatapp.tui.app import list_bindable

PAGE = (Path(__file__).parents[2] / "docs" / "screen.md").read_text(encoding="utf-8")


def chapter(title: str) -> str:
    """The text under a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_key_that_can_be_rebound_is_told_and_no_other() -> None:
    told = set(re.findall(r"`([a-z]+\.[a-z_]+)`", chapter("Keys")))
    assert told == {action.id for action in list_bindable()}


def test_every_command_is_told() -> None:
    names = [name for slash in SLASHES for name in slash.names]
    assert not [name for name in names if f"`{name}" not in chapter("Commands")]
