"""Writes what tells the command line to others from its parser: man page, a page of the docs.

python packaging/reference.py man|markdown
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator

from chatapp import __version__
from chatapp.cli.completion import help_of, options
from chatapp.cli.main import COMMANDS, EPILOG, build_parsers

WHOLE, PARSERS = build_parsers([*COMMANDS])


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command with its parser, and behind it its actions, or its targets."""
    for name in COMMANDS:
        yield name, PARSERS[name]
        for action in PARSERS[name]._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((f"{name} {one.dest}", action.choices[one.dest]) for one in action._choices_actions)


def spelled(action: argparse.Action) -> str:
    """An option as it is written, with what it takes."""
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    taken = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    return f"{names} {taken if isinstance(taken, str) else ' '.join(taken)}"


def man() -> Iterator[str]:
    """The man page, as roff."""
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    yield f'.TH CHATAPP 1 "{day}" "chatapp {__version__}" "User commands"'
    yield ".SH NAME\nchatapp \\- chat and complete code with models that run on this machine"
    yield ".SH SYNOPSIS\n.B chatapp\n.RI [ COMMAND ]\n.RI [ options ]"
    yield f".SH DESCRIPTION\n{roff(WHOLE.description or '')}\n.PP\n.nf\n{roff(EPILOG)}\n.fi"
    yield ".SH OPTIONS"
    for action in options(WHOLE):
        yield f".TP\n.B {roff(spelled(action))}\n{roff(help_of(action))}"
    yield ".SH COMMANDS"
    for name, parser in commands():
        yield f".SS chatapp {name}\n{roff(parser.description or '')}"
        for action in options(parser):
            yield f".TP\n.B {roff(spelled(action))}\n{roff(help_of(action))}"
    yield ".SH FILES\n.TP\n.I ~/.local/share/chatapp"
    yield "Settings, conversations and models; CHATAPP_HOME names another folder."


def roff(text: str) -> str:
    """A text in which nothing is an instruction of roff."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def markdown() -> Iterator[str]:
    """The page of every command and option."""
    yield f"# Reference\n\nOf chatapp {__version__}, from its own parser.\n"
    yield "\n".join(f"- `{spelled(action)}`: {help_of(action)}" for action in options(WHOLE)) + "\n"
    for name, parser in commands():
        yield f"## chatapp {name}\n\n{parser.description}\n"
        rows = [f"| `{spelled(one)}` | {help_of(one)} |".replace("\n", " ") for one in options(parser)]
        if rows:
            yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"


FORMS = {"man": man, "markdown": markdown}

if __name__ == "__main__":
    print("\n".join(FORMS[sys.argv[1]]()))
