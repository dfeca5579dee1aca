"""Parses the arguments of slash commands into Commands, without running anything."""

import re
from collections.abc import Callable
from typing import get_args

from backends.suggest import suggest
from chatapp.commands import run
from chatapp.commands.commands import Act, Command
from chatapp.text.errors import InputError

FENCE = '"""'
"""Begins and ends a multi-line text."""
Read = Callable[[str], Command]


# Words


def is_command(line: str) -> bool:
    """Whether a line is a slash command; two slashes escape a text that begins with one."""
    return line.startswith("/") and not line.startswith("//")


def text_of(line: str) -> str:
    """The text of a line that is not a command: a leading `//` or `!!` is an escaped `/` or `!`."""
    return line.replace(line.lstrip()[0], "", 1) if line.lstrip().startswith(("//", "!!")) else line


def line_of(text: str) -> str:
    """The line that stands for a text, the inverse of `text_of`."""
    return text.replace(text.lstrip()[0], 2 * text.lstrip()[0], 1) if text.lstrip().startswith(("/", "!")) else text


def cut(text: str) -> tuple[str, str]:
    """The first word, and the rest."""
    first, *rest = re.split(r"\s+", text.strip(), maxsplit=1)
    return first, rest[0] if rest else ""


def unquote(text: str) -> str:
    """A text without the quotes or fences around it."""
    for mark in (FENCE, '"', "'"):
        if len(text) >= 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            return text[len(mark) : -len(mark)].strip("\n") if mark == FENCE else text[1:-1]
    return text


def hint(word: str, known: list[str], otherwise: str = "") -> str:
    """A suggestion for an unknown word."""
    long = [one for one in known if len(one) > 2]
    return suggest(word.lower(), long, otherwise or f"choose from {', '.join(known)}")


# Arguments


def no_argument(act: Act) -> Read:
    """A parser for a command without arguments."""

    def read(rest: str) -> Command:
        if rest:
            raise InputError(f"this command takes no argument: remove {rest!r}")
        return Command(act)

    return read


def optional_text(act: Act) -> Read:
    """A parser for a command with an optional text, perhaps quoted."""
    return lambda rest: Command(act, (unquote(rest),))


def required_text(act: Act, what: str, read: Callable[[str], str] = unquote) -> Read:
    """A parser for a command that requires a text, perhaps quoted."""

    def read_text(rest: str) -> Command:
        if not rest:
            raise InputError(f"this command needs {what}")
        return Command(act, (read(rest),))

    return read_text


def read_setting(rest: str) -> Command:
    """Parse the arguments of /set."""
    from chatapp.commands.parameters import read_parameter
    from chatapp.generation.text.thinking import EFFORTS

    what, value = cut(rest)
    switches = {
        "think": Command(run.set_thinking, (True,)),
        "nothink": Command(run.set_thinking, (False,)),
        "history": Command("begin", (True,)),
        "nohistory": Command("begin", (False,)),
        "verbose": Command("tell_timings", (True,)),
        "quiet": Command("tell_timings", (False,)),
        "noformat": Command(run.set_option, ("json_object", False)),
    }
    match what.lower():
        case "parameter":
            return Command(run.set_option, read_parameter(*cut(value)))
        case "system":
            return Command(run.set_system, (unquote(value),))
        case "think" if value.lower() in EFFORTS:
            return Command(run.set_thinking, (value.lower(),))
        case "think" if value:
            raise InputError(f"unknown effort {value!r}; use /set think alone, or with {', '.join(EFFORTS)}")
        case switch if switch in switches:
            if value:
                raise InputError(f"/set {what} takes no value: remove {value!r}")
            return switches[switch]
        case "format" if value.lower() == "json":
            return Command(run.set_option, ("json_object", True))
        case "format":
            raise InputError("the only format is json; for a schema, use /set parameter json_schema FILE")
        case "wordwrap" | "nowordwrap":
            raise InputError("not needed: lines are as wide as the terminal")
        case "":
            raise InputError(
                "/set needs one of: parameter NAME VALUE, system TEXT, think, nothink, history or nohistory"
            )
    raise InputError(f"there is no setting {what!r}; {hint(what, ['parameter', 'system', *switches])}")


def read_topic(rest: str) -> Command:
    """Parse the argument of /show."""
    topics = get_args(run.Topic)
    topic = rest.lower().replace("licence", "license") or "info"
    if topic not in topics:
        raise InputError(f"there is no {rest!r} to show; {hint(rest, list(topics))}")
    return Command(run.show, (topic,))


def read_block(rest: str) -> Command:
    """Parse the argument of /copy."""
    if rest and not re.fullmatch("[1-9][0-9]{0,3}", rest):
        raise InputError(f"{rest!r} is not the number of a code block; they are counted from 1")
    return Command(run.copy, (int(rest) if rest else None,))


def read_export(rest: str) -> Command:
    """Parse the arguments of /export."""
    from chatapp.conversation.files import FORMS

    word, path = cut(rest)
    if form := FORMS.get(word.lower()):
        return Command(run.export, (form, unquote(path)))
    if re.fullmatch(r"\w+", rest):
        raise InputError(f"there is no format {rest!r}; choose from markdown, html and json, or a file: {rest}.md")
    return Command(run.export, (None if rest else "markdown", unquote(rest)))  # None: by the file's ending
