"""Commands as data: what can be done, by which key, name or slash command, and a slash command as it was typed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Act = Callable[..., None] | str
"""What a command does: a function over a view, or the name of what the view itself does."""


PRESETS, SEARCH = "sampling.preset_picker:PresetPicker", "chat.search:SearchScreen"
"""Screens that slash commands open, too: the module below `chatapp.tui`, and the class."""


def place_at(place: str, *arguments: object) -> str:
    """The action that opens a screen over the conversation, named by its module below `chatapp.tui` and its class."""
    return f"screen.over({', '.join(map(repr, (place, *arguments)))})"


@dataclass(frozen=True)
class Command:
    """A slash command that was typed: what it does, and its arguments after the view."""

    act: Act
    arguments: tuple[Any, ...] = ()  # Any: each function has parameters of its own


@dataclass(frozen=True)
class Slash:
    """A slash command of the table."""

    name: str
    """With its slash; other names of the same command follow behind spaces."""
    read: Callable[[str], Command]
    """Reads what follows the name; InputError says what is wrong with it."""
    usage: str = ""
    """What may follow the name, for the help."""
    does: str = ""
    """What it does, for the help."""

    @property
    def names(self) -> list[str]:
        """All of its names, each with its slash."""
        return self.name.split()


@dataclass(frozen=True)
class Action:
    """Something that can be done on the screen: a row of the palette, with its key and its slash commands."""

    title: str
    does: str
    run: str = ""
    """An action of the app, the screen or the box in which one types, such as `screen.new`; else the slash command."""
    id: str = ""
    """Of its key, for keys.toml."""
    key: str = ""
    """The key it has unless its user chose others."""
    within: str = ""
    """The id of the key that is pressed before, where the key works only in the place that opens."""
    slash: Slash | tuple[Slash, ...] = ()
    """The slash commands that do the same."""
    names: str = ""
    """Other names that people try, with commas between."""
    place: str = ""
    """The ids of keys of the place that this opens, beside those that are actions of their own."""
    daily: bool = False
    """Whether it is one of the first to know."""
    foot: str = ""
    """What the line of keys calls it, where that shows it."""
    always: bool = False
    """Whether its key works before those of the place that has the focus."""

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
        """What its key and its row of the palette run, for Textual."""
        return self.run or f"screen.slash({self.slashes[0].names[0]!r})"
