"""What a user can ask for in the middle of a conversation, as data; chatapp/commands/parse.py reads it from a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

What = Literal["info", "parameters", "system", "template", "license", "modelfile"]
ExportForm = Literal["markdown", "html", "json"]
FORMS: Mapping[str, ExportForm] = {"markdown": "markdown", "md": "markdown", "html": "html", "json": "json"}
"""The forms of an export, by their names and by the endings of files."""


@dataclass(frozen=True)
class SetParameter:
    """Choose an option of the answers to come."""

    name: str
    value: Any  # Any: each option has its own type, which Options checks


@dataclass(frozen=True)
class SetSystem:
    """Choose the system prompt; an empty one is none."""

    text: str


@dataclass(frozen=True)
class SetThinking:
    """Let the model think before it answers, or answer at once."""

    on: bool


@dataclass(frozen=True)
class SetHistory:
    """Begin another conversation, which is kept, or of which nothing is."""

    kept: bool


@dataclass(frozen=True)
class Show:
    """Tell about the model, or about how it is asked."""

    what: What


@dataclass(frozen=True)
class Load:
    """Answer with another model."""

    model: str


@dataclass(frozen=True)
class Save:
    """Give the conversation a title."""

    title: str


@dataclass(frozen=True)
class Clear:
    """Begin another conversation; the one before stays in the history."""


@dataclass(frozen=True)
class Leave:
    """Leave chatapp."""


@dataclass(frozen=True)
class Help:
    """Tell the commands, the keys, or how one command is used."""

    about: str = ""
    """Nothing, `shortcuts`, or the name of a command, with its slash."""


@dataclass(frozen=True)
class Models:
    """Show the models."""


@dataclass(frozen=True)
class Again:
    """Answer the last question once more."""


@dataclass(frozen=True)
class Continue:
    """Let the last answer, which was cut off, go on."""


@dataclass(frozen=True)
class Edit:
    """Change the last question and answer it; without a text, the screen lets its user type."""

    text: str = ""


@dataclass(frozen=True)
class Copy:
    """Copy the last answer, or the code block with this number, counted from 1."""

    block: int | None = None


@dataclass(frozen=True)
class Export:
    """Write the conversation to a file; without a path, to one whose name is made of the title."""

    form: ExportForm = "markdown"
    path: str = ""


@dataclass(frozen=True)
class Import:
    """Bring in conversations from a file."""

    path: str


@dataclass(frozen=True)
class ChooseTheme:
    """Change the colours; without a name, let the user pick."""

    name: str = ""


@dataclass(frozen=True)
class Search:
    """Find messages in all conversations."""

    words: str


@dataclass(frozen=True)
class Preset:
    """Take the options of a preset; without a name, list them."""

    name: str = ""


Command = (
    SetParameter | SetSystem | SetHistory | Show | Load | Save | Clear | Leave | Help | Models | Again | Edit | Copy
    | Continue | SetThinking | Export | Import | ChooseTheme | Search | Preset
)  # fmt: skip
