"""Writes what tells the command line to others from its parser: man page, shell completion, a page of the docs.

python packaging/reference.py man|bash|zsh|fish|markdown
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator

from chatapp import __version__
from chatapp.cli.main import ALIASES, COMMANDS, EPILOG, build_parsers


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of everything, and that of each command, with their arguments."""
    whole, commands = build_parsers([*COMMANDS])
    return whole, {name: commands[name] for name in COMMANDS}


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a parser that its help shows."""
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS and "--help" not in action.option_strings:
            yield action


def spelled(action: argparse.Action) -> str:
    """An option as it is written, with what it takes."""
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    taken = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    return f"{names} {taken if isinstance(taken, str) else ' '.join(taken)}"


def told(action: argparse.Action) -> str:
    """What an option does."""
    return (action.help or "").replace("%%", "%")


def man() -> Iterator[str]:
    """The man page, as roff."""
    whole, commands = parsers()
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    yield f'.TH CHATAPP 1 "{day}" "chatapp {__version__}" "User commands"'
    yield ".SH NAME\nchatapp \\- chat and complete code with models that run on this machine"
    yield ".SH SYNOPSIS\n.B chatapp\n.RI [ COMMAND ]\n.RI [ options ]"
    yield f".SH DESCRIPTION\n{roff(whole.description or '')}\n.PP\n.nf\n{roff(EPILOG)}\n.fi"
    yield ".SH OPTIONS"
    for action in options(whole):
        yield f".TP\n.B {roff(spelled(action))}\n{roff(told(action))}"
    yield ".SH COMMANDS"
    for name, parser in commands.items():
        yield f".SS chatapp {name}\n{roff(parser.description or '')}"
        for action in options(parser):
            yield f".TP\n.B {roff(spelled(action))}\n{roff(told(action))}"
    yield ".SH FILES\n.TP\n.I ~/.local/share/chatapp"
    yield "Settings, conversations and models; CHATAPP_HOME names another folder."


def roff(text: str) -> str:
    """A text in which nothing is an instruction of roff."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def bash() -> Iterator[str]:
    """Completion for bash."""
    whole, commands = parsers()
    yield "# chatapp: completion for bash"
    yield "_chatapp() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=""'
    yield '    if [ "$COMP_CWORD" = 1 ]; then'
    names = [*COMMANDS, *ALIASES, *(name for action in options(whole) for name in action.option_strings)]
    yield f'        words="{" ".join(names)}"'
    yield "    else"
    yield '        case "$command" in'
    for name, parser in commands.items():
        given = " ".join(option for action in options(parser) for option in action.option_strings)
        pattern = "|".join([name, *(alias for alias, meant in ALIASES.items() if meant == name)])
        yield f'            {pattern}) words="{given}" ;;'
    yield "        esac"
    yield "    fi"
    yield '    if [ "$COMP_CWORD" = 1 ] || [[ $word == -* ]]; then'
    yield '        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
    yield "    fi"
    yield "}"
    yield "complete -o default -F _chatapp chatapp"


def zsh() -> Iterator[str]:
    """Completion for zsh."""
    _, commands = parsers()
    yield "#compdef chatapp"
    yield "_chatapp() {"
    yield "    local -a commands"
    yield "    commands=("
    for name, about in COMMANDS.items():
        yield f"        {quoted(f'{name}:{about}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    case $words[2] in"
    for name, parser in commands.items():
        lines = [f"{option}[{clean(told(action))}]" for action in options(parser) for option in action.option_strings]
        yield f"        {name}) _arguments {' '.join(map(quoted, lines))} '*:file:_files' ;;"
    yield "    esac"
    yield "}"
    yield '_chatapp "$@"'


def fish() -> Iterator[str]:
    """Completion for fish."""
    _, commands = parsers()
    yield "# chatapp: completion for fish"
    for name, about in COMMANDS.items():
        yield f"complete -c chatapp -n __fish_use_subcommand -a {name} -d {quoted(about)}"
    for name, parser in commands.items():
        for action in options(parser):
            for option in action.option_strings:
                kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                takes = "" if action.nargs == 0 else " -r"
                where = f"-n '__fish_seen_subcommand_from {name}'"
                yield f"complete -c chatapp {where} {kind}{takes} -d {quoted(clean(told(action)))}"


def clean(text: str) -> str:
    """A description without what shells read in one."""
    return re.sub(r"[\[\]:'`$\\]", "", text)


def quoted(text: str) -> str:
    """A word of a shell."""
    return "'" + text.replace("'", "") + "'"


def markdown() -> Iterator[str]:
    """The page of every command and option."""
    whole, commands = parsers()
    yield f"# Reference\n\nOf chatapp {__version__}, from its own parser.\n"
    yield "\n".join(f"- `{spelled(action)}`: {told(action)}" for action in options(whole)) + "\n"
    for name, parser in commands.items():
        yield f"## chatapp {name}\n\n{parser.description}\n"
        rows = [f"| `{spelled(one)}` | {told(one)} |".replace("\n", " ") for one in options(parser)]
        if rows:
            yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"


FORMS = {"man": man, "bash": bash, "zsh": zsh, "fish": fish, "markdown": markdown}

if __name__ == "__main__":
    print("\n".join(FORMS[sys.argv[1]]()))
