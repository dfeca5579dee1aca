"""Commands as data: an action of the table, its slash commands, and a slash command as typed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Act = Callable[..., None] | str
"""A function of a view, or the name of the view's method."""


PRESETS, SEARCH = "sampling.preset_picker:PresetPicker", "chat.search:SearchScreen"
"""Screens that slash commands open too: the module below `chatapp.tui`, and the class."""


def place_at(place: str, *arguments: object) -> str:
    """The Textual action that opens a screen, given as MODULE:CLASS below `chatapp.tui`."""
    return f"screen.over({', '.join(map(repr, (place, *arguments)))})"


@dataclass(frozen=True)
class Command:
    """A slash command as typed: what it runs, and the arguments after the view."""

    act: Act
    arguments: tuple[Any, ...] = ()  # Any: each function has parameters of its own


@dataclass(frozen=True)
class Slash:
    """A slash command of the table."""

    name: str
    """Its name with the slash, and other names, separated by spaces."""
    read: Callable[[str], Command]
    """Parses the arguments; InputError says what is wrong."""
    usage: str = ""
    """Its arguments, for the help."""
    does: str = ""
    """Its description, for the help."""

    @property
    def names(self) -> list[str]:
        """All its names, with their slashes."""
        return self.name.split()


@dataclass(frozen=True)
class Action:
    """Something the user can do: a row of the palette, with its key and its slash commands."""

    title: str
    does: str
    run: str = ""
    """The Textual action, such as `screen.new`; if empty, the slash command is run."""
    id: str = ""
    """The id of its key in keys.toml."""
    key: str = ""
    """Its default key."""
    within: str = ""
    """The id of the key to press before, if this key only works in the place that one opens."""
    slash: Slash | tuple[Slash, ...] = ()
    """Slash commands that do the same."""
    names: str = ""
    """Other names people try, separated by commas."""
    place: str = ""
    """Ids of the keys that work in the place this opens, besides actions of their own."""
    daily: bool = False
    """Whether it is among the first to learn."""
    foot: str = ""
    """Its label in the line of keys; empty if it is not shown there."""
    always: bool = False
    """Whether its key takes precedence over the keys of the focused widget."""

    @property
    def slashes(self) -> tuple[Slash, ...]:
        """Its slash commands."""
        return (self.slash,) if isinstance(self.slash, Slash) else self.slash

    @property
    def called(self) -> tuple[str, ...]:
        """The names by which it is found, its title first."""
        slashes = (name.removeprefix("/") for slash in self.slashes for name in slash.names)
        return (self.title, *slashes, *filter(None, self.names.split(", ")))

    @property
    def action(self) -> str:
        """The Textual action that its key and its palette row run."""
        return self.run or f"screen.slash({self.slashes[0].names[0]!r})"
