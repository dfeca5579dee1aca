"""Commands that begin with a slash, with Ollama's names: what is typed, as data; nothing here does anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from backends.errors import UserError
from chatapp.commands import parameters
from chatapp.commands.commands import (
    FORMS,
    Again,
    ChooseTheme,
    Clear,
    Command,
    Continue,
    Copy,
    Edit,
    Export,
    Help,
    Import,
    Leave,
    Load,
    Models,
    Preset,
    Save,
    Search,
    SetHistory,
    SetParameter,
    SetSystem,
    SetThinking,
    Show,
    What,
)
from chatapp.text.suggest import suggest

FENCE = '"""'
"""Begins and ends a text of several lines."""


class SlashError(UserError):
    """A line that is no command."""


Parse = Callable[[str], Command]


@dataclass(frozen=True)
class Entry:
    """A row of the table of commands."""

    name: str
    """With its slash."""
    usage: str
    """What may follow the name."""
    does: str
    parse: Parse
    """Makes the command of what follows the name."""
    hidden: bool = False
    """Another name of the command before it."""


def parse(line: str) -> Command | None:
    """The command that a line is, or None where it is a text for the model, as `text_of` gives it."""
    line = line.strip()
    if not line.startswith("/") or line.startswith("//"):
        return None
    name, rest = _cut(line)
    names = {entry.name: entry for entry in COMMANDS}
    if found := names.get(name.lower()):
        return found.parse(rest)
    near = _hint(name, list(names), "/? lists all; // sends a leading slash")
    raise SlashError(f"unknown command {name}; {near}")


def text_of(line: str) -> str:
    """The text for the model in a line that is no command: two slashes, or exclamation marks, begin with one."""
    return line.replace(line.lstrip()[0], "", 1) if line.lstrip().startswith(("//", "!!")) else line


def table() -> list[tuple[str, str]]:
    """Every command with what may follow, and what it does."""
    return [(f"{entry.name} {entry.usage}".strip(), entry.does) for entry in COMMANDS if not entry.hidden]


def explain(about: str = "") -> str:
    """Help in lines of text: on all commands, or on one of them."""
    if about == "/set":
        return "\n".join([SET, *(f"  {name:19} {one.does}" for name, one in parameters.PARAMETERS.items())])
    if about:
        entry = next(entry for entry in COMMANDS if entry.name == about)
        lines = (f"{entry.name} {entry.usage}".strip(), entry.does, DETAILS.get(entry.name, ""))
        return "\n  ".join(filter(None, lines))
    rows = [
        *table(),
        ("!COMMAND", "run it in your shell, for the next message"),
        (FENCE, "begin and end a text of several lines"),
    ]
    width = max(len(usage) for usage, _ in rows)
    return "\n".join(f"{usage:{width}}  {does}" for usage, does in rows)


SET = """\
/set parameter NAME VALUE
/set system TEXT
/set think      let the model think before it answers
/set nothink    let it answer at once
/set history    begin another conversation, which is kept
/set nohistory  begin another conversation, of which nothing is kept

parameters:"""
DETAILS = {
    "/show": "WHAT is info, parameters, system, template, license or modelfile",
    "/export": "FORMAT is markdown, html or json; FILE is made of the title where it is not said",
}
"""More about some commands."""


# What follows the names


def _cut(text: str) -> tuple[str, str]:
    """The first word, and the rest."""
    first, *rest = re.split(r"\s+", text.strip(), maxsplit=1)
    return first, rest[0] if rest else ""


def _alone(command: Command) -> Parse:
    """Of a command that nothing follows."""

    def parse(rest: str) -> Command:
        if rest:
            raise SlashError(f"nothing follows this command, but here does {rest.split()[0]!r}")
        return command

    return parse


def _wanted(make: Callable[[str], Command], what: str) -> Parse:
    """Of a command that needs to be told something."""

    def parse(rest: str) -> Command:
        if not rest:
            raise SlashError(f"say {what} after the command")
        return make(rest)

    return parse


def _set(rest: str) -> Command:
    what, value = _cut(rest)
    match what.lower():
        case "parameter":
            try:
                return SetParameter(*parameters.read(*_cut(value)))
            except parameters.ParameterError as error:
                raise SlashError(str(error)) from error
        case "system":
            return SetSystem(unquoted(value))
        case "think" | "nothink" if not value:
            return SetThinking(what.lower() == "think")
        case "history" | "nohistory" if not value:
            return SetHistory(what.lower() == "history")
        case "history" | "nohistory" | "think" | "nothink":
            raise SlashError(f"nothing follows /set {what}, but here does {value!r}")
        case "format" | "noformat":
            raise SlashError("answers have no set format here; ask for JSON in the message or the system prompt")
        case "verbose" | "quiet":
            raise SlashError("there is nothing to switch: the latencies are always there")
        case "wordwrap" | "nowordwrap":
            raise SlashError("there is nothing to switch: lines are as wide as the terminal")
        case "":
            raise SlashError("say what to set: parameter NAME VALUE, system TEXT, think, nothink, history or nohistory")
    known = ["parameter", "system", "think", "nothink", "history", "nohistory"]
    raise SlashError(f"there is no setting {what!r}; {_hint(what, known)}")


def _show(rest: str) -> Command:
    for what in get_args(What):
        if what == (rest.lower().replace("licence", "license") or "info"):
            return Show(what)
    raise SlashError(f"there is no {rest!r} to show; {_hint(rest, list(get_args(What)))}")


def _help(rest: str) -> Command:
    word = rest.lower().lstrip("/")
    if word in ("", "shortcuts"):
        return Help(word)
    if f"/{word}" not in [entry.name for entry in COMMANDS]:
        raise SlashError(f"there is no help on {rest!r}; /? lists the commands, /? shortcuts the keys")
    return Help(f"/{word}")


def _copy(rest: str) -> Command:
    if rest and not re.fullmatch("[1-9][0-9]{0,3}", rest):
        raise SlashError(f"{rest!r} is not the number of a code block; they are counted from 1")
    return Copy(int(rest) if rest else None)


def _export(rest: str) -> Command:
    word, path = _cut(rest)
    if word.lower() not in FORMS:
        word, path = rest.rpartition(".")[2], rest
    return Export(FORMS.get(word.lower(), "markdown"), unquoted(path))


def unquoted(text: str) -> str:
    """A text without the quotes, or the fences, around it."""
    for mark in (FENCE, '"', "'"):
        if len(text) >= 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            return text[len(mark) : -len(mark)].strip("\n") if mark == FENCE else text[1:-1]
    return text


def _hint(word: str, known: list[str], otherwise: str = "") -> str:
    long = [one for one in known if len(one) > 2]
    return suggest(word.lower(), long, otherwise or f"known are {', '.join(known)}")


COMMANDS: tuple[Entry, ...] = (
    Entry("/set", "parameter NAME VALUE", "choose an option, such as temperature 0.7", _set),
    Entry("/show", "[WHAT]", "tell about the model", _show),
    Entry("/load", "MODEL", "answer with another model", _wanted(lambda rest: Load(unquoted(rest)), "which model")),
    Entry("/save", "TITLE", "give the conversation a title", _wanted(lambda rest: Save(unquoted(rest)), "which title")),
    Entry("/clear", "", "begin another conversation", _alone(Clear())),
    Entry("/new", "", "begin another conversation", _alone(Clear()), hidden=True),
    Entry("/list", "", "show the models", _alone(Models()), hidden=True),
    Entry("/model", "[MODEL]", "show the models, or take one", lambda rest: Load(unquoted(rest)) if rest else Models()),
    Entry("/again", "", "answer the last question once more", _alone(Again())),
    Entry("/continue", "", "let an answer that was cut off go on", _alone(Continue())),
    Entry("/edit", "[TEXT]", "ask the last question in other words", lambda rest: Edit(unquoted(rest))),
    Entry("/copy", "[N]", "copy the last answer, or its N-th code block", _copy),
    Entry("/export", "[FORMAT] [FILE]", "write the conversation to a file", _export),
    Entry("/import", "FILE", "bring in conversations", _wanted(lambda rest: Import(unquoted(rest)), "which file")),
    Entry("/theme", "[NAME]", "change the colours", lambda rest: ChooseTheme(unquoted(rest))),
    Entry("/search", "WORDS", "find messages in all conversations", _wanted(Search, "which words")),
    Entry("/preset", "[NAME]", "take the options of a preset", lambda rest: Preset(unquoted(rest))),
    Entry("/?", "[shortcuts]", "list the commands, or the keys", _help),
    Entry("/help", "[shortcuts]", "list the commands, or the keys", _help, hidden=True),
    Entry("/bye", "", "leave", _alone(Leave())),
    Entry("/exit", "", "leave", _alone(Leave()), hidden=True),
)
"""Every command, in the order in which help tells them."""
