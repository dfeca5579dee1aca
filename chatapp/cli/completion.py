"""`chatapp completion`: what lets a shell complete commands and options, written from the parser."""

import argparse
import re
from argparse import Namespace
from collections.abc import Iterator

from chatapp.cli.arguments import Parser
from chatapp.cli.main import ALIASES, COMMANDS, build_parsers

DETAILS = """\
bash: chatapp completion bash >~/.local/share/bash-completion/completions/chatapp
zsh:  chatapp completion zsh >_chatapp, in a folder of $fpath
fish: chatapp completion fish >~/.config/fish/completions/chatapp.fish
Packages of chatapp have done so.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="bash|zsh|fish")


def run(given: Namespace) -> None:
    """Print the script of a shell."""
    print("\n".join(SHELLS[given.shell]()))


def parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser of everything, and that of each command, with their arguments."""
    whole, commands = build_parsers([*COMMANDS])
    return whole, {name: commands[name] for name in COMMANDS}


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a parser that its help shows."""
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS and "--help" not in action.option_strings:
            yield action


def told(action: argparse.Action) -> str:
    """What an option does."""
    return (action.help or "").replace("%%", "%")


def bash() -> Iterator[str]:
    """Completion for bash."""
    whole, commands = parsers()
    yield "# chatapp: completion for bash"
    yield "_chatapp() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} words=""'
    yield '    if [ "$COMP_CWORD" = 1 ]; then'
    names = [*COMMANDS, *ALIASES, *(name for action in options(whole) for name in action.option_strings)]
    yield f'        words="{" ".join(names)}"'
    yield '    elif [[ $word == -* ]]; then case "${COMP_WORDS[1]}" in'
    for name, parser in commands.items():
        given = " ".join(option for action in options(parser) for option in action.option_strings)
        pattern = "|".join([name, *(alias for alias, meant in ALIASES.items() if meant == name)])
        yield f'        {pattern}) words="{given}" ;;'
    yield "    esac fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _chatapp chatapp"


def zsh() -> Iterator[str]:
    """Completion for zsh."""
    yield "#compdef chatapp"
    yield "_chatapp() {"
    about = " ".join(quoted(f"{name}:{about}") for name, about in COMMANDS.items())
    yield f"    local -a commands=({about})"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    case $words[2] in"
    for name, parser in parsers()[1].items():
        lines = [f"{option}[{clean(told(action))}]" for action in options(parser) for option in action.option_strings]
        yield f"        {name}) _arguments {' '.join(map(quoted, lines))} '*:file:_files' ;;"
    yield "    esac"
    yield "}"
    yield '_chatapp "$@"'


def fish() -> Iterator[str]:
    """Completion for fish."""
    yield "# chatapp: completion for fish"
    for name, about in COMMANDS.items():
        yield f"complete -c chatapp -n __fish_use_subcommand -a {name} -d {quoted(about)}"
    for name, parser in parsers()[1].items():
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


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
