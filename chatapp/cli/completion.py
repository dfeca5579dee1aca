"""`chatapp completion`: scripts for the shells, and the completions of a line, read from the parser."""

import argparse
import shlex
from argparse import Action, Namespace
from collections.abc import Callable, Iterator

import backends
from chatapp.cli.arguments import OFFLINE, Parser
from chatapp.cli.editor import EDITORS
from chatapp.cli.main import build_parsers
from chatapp.cli.service import ACTIONS
from chatapp.settings import presets, system_prompts
from chatapp.text.printable import printable
from chatapp.workspace import Workspace

DETAILS = """\
bash: chatapp completion bash >~/.local/share/bash-completion/completions/chatapp
zsh:  chatapp completion zsh >_chatapp, in a directory of $fpath
fish: chatapp completion fish >~/.config/fish/completions/chatapp.fish
Packages of chatapp install it already.
"""
BASH = r"""# chatapp: completion for bash
_chatapp() {
    local line=${COMP_LINE:0:COMP_POINT} found word before
    COMPREPLY=()
    found=$("$1" completion --line "$line" 2>/dev/null) || { compopt -o default; return; }
    [ "$found" ] || return
    before=${line%"${line##*["$COMP_WORDBREAKS"]}"} # bash replaces what stands behind that
    before=${before##*[[:space:]]} before=${before%@}
    while IFS=$'\t' read -r word _; do
        word=${word#"$before"}
        [[ ${COMP_WORDS[COMP_CWORD]} == [\"\']* ]] || printf -v word %q "$word"
        COMPREPLY+=("$word")
    done <<<"$found"
}
complete -F _chatapp chatapp"""
ZSH = r"""#compdef chatapp
_chatapp() {
    local found word about
    local -a offers
    found=$($words[1] completion --line "${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX" 2>/dev/null) || {
        compset -P '--*='
        _files
        return
    }
    while IFS=$'\t' read -r word about; do
        offers+=("${word//:/\\:}${about:+:$about}")
    done <<<"$found"
    [[ -n $found ]] && _describe value offers
}
_chatapp "$@" """.rstrip()
FISH = r"""# chatapp: completion for fish
function __chatapp
    set -l words (commandline -opc)
    $words[1] completion --line (commandline -cp | string collect) 2>/dev/null
    or __fish_complete_path (commandline -ct)
end
complete -c chatapp -f -a '(__chatapp)'"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
FILES = {"FILE", "DIR", "FOLDER", "PATH", "MODEL", "COMMAND", "torch|FILE"}
"""Metavars of arguments that may be the path of a file."""
LATEST = 50
"""Conversations that are offered."""


def add(parser: Parser) -> None:
    """Add the arguments."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("shell", nargs="?", choices=tuple(SHELLS), metavar="bash|zsh|fish")
    which.add_argument("--line", metavar="LINE", help="print completions for LINE (used by the script)")


def run(given: Namespace) -> int:
    """Print a shell's script, or the completions of a line; returns 1 if the shell should complete a file name."""
    if given.shell:
        print(SHELLS[given.shell])
        return 0
    found, file = offers(given.line)
    for word, about in found.items():
        if word.isprintable():
            print(f"{word}\t{' '.join(printable(about).split())}".rstrip())
    return 1 if file and not found else 0


# A line


def offers(line: str) -> tuple[dict[str, str], bool]:
    """Completions of the last word of a line, with descriptions; and whether it may be a file name."""
    *words, last = split(line)[1:] or [""]
    parser, action = find_place(words)
    begin = ""
    if last.startswith("-") and not action.option_strings and "--" not in words:
        option, equals, last = last.partition("=")
        if not equals:
            known = {name: help_of(one) for one in options(parser) for name in one.option_strings}
            return matching(known | {"--offline": OFFLINE}, option), False
        action, begin = parser._option_string_actions.get(option, NOTHING), option + equals
    found = matching(values(action, parser.prog.removeprefix("chatapp ")), last)
    return {begin + name: about for name, about in found.items()}, action.metavar in FILES


def split(line: str) -> list[str]:
    """The words of a line as shells split it, even with an open quote; the last may be empty."""
    for end in ("", "'", '"'):
        try:
            *words, last = shlex.split(f"{line}\0{end}")
        except ValueError:
            continue
        return [*words, last.removesuffix("\0")]
    return []


def find_place(words: list[str]) -> tuple[Parser, Action]:
    """The parser in force after these words, and the action that the next word belongs to."""
    parser, _ = build_parsers(words)
    places, pending = positions(parser), None
    for word in words:
        if pending:
            pending = None
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            pending = option if option and option.nargs != 0 else None
        elif places and isinstance(places[0], argparse._SubParsersAction):
            if not (chosen := places[0].choices.get(word)):
                return parser, NOTHING
            parser, places = chosen, positions(chosen)
        elif places and places[0].nargs not in ("*", "+"):
            del places[0]
    return parser, pending or (places[0] if places else NOTHING)


def positions(parser: Parser) -> list[Action]:
    """The positional arguments of a parser, in order; the last may repeat."""
    named = [action for action in parser._actions if not action.option_strings and action.help != argparse.SUPPRESS]
    return [*named, *WORDS.get(parser.prog.removeprefix("chatapp "), ())]


def options(parser: argparse.ArgumentParser) -> Iterator[Action]:
    """The options that a parser's help shows."""
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS and "--help" not in action.option_strings:
            yield action


def help_of(action: Action) -> str:
    """The help of an option."""
    return (action.help or "").replace("%%", "%")


def matching(known: dict[str, str], begin: str) -> dict[str, str]:
    """The names that begin with this text."""
    return {name: about for name, about in known.items() if name.startswith(begin)}


# Values of arguments


def values(action: Action, command: str) -> dict[str, str]:
    """The known values of an argument of a command, with descriptions."""
    if isinstance(action, argparse._SubParsersAction):
        return {one.dest: help_of(one) for one in action._choices_actions}
    if action.choices:
        return dict.fromkeys(map(str, action.choices), "")
    names = (*action.option_strings, action.metavar, f"{command} {action.metavar}")
    return next((KNOWN[name](Workspace()) for name in names if name in KNOWN), {})


def find_models(workspace: Workspace) -> dict[str, str]:
    """Local and remote models."""
    here = dict.fromkeys(workspace.open_store().every_location(), "")
    return here | dict.fromkeys(workspace.list_remote_models(), "on a server")


def find_conversations(workspace: Workspace) -> dict[str, str]:
    """The conversations used last."""
    with workspace.open_history() as history:
        return {str(one.id): one.title for one in history.list(LATEST)}


def find_precisions(_: Workspace) -> dict[str, str]:
    """The precisions."""
    from backends.quantize import PRECISIONS

    return dict.fromkeys(PRECISIONS, "")


KNOWN: dict[str, Callable[[Workspace], dict[str, str]]] = {
    "MODEL": find_models,
    "--draft-model": find_models,
    "ID": find_conversations,
    "--backend": lambda _: dict.fromkeys(backends.NAMES, ""),
    "--precision": find_precisions,
    "--device": lambda _: {device: "" for name in backends.NAMES for device in backends.get(name).devices()},
    "--preset": lambda user: {name: one.about for name, one in presets.read(user.home / "presets.toml").items()},
    "--system": lambda user: {f"@{one.name}": "" for one in system_prompts.entries(user.home / "prompts")},
    "--tools": lambda user: dict.fromkeys(user.read_settings().mcp, ""),
    "--remote": lambda user: {one.name: one.url for one in user.read_remotes()},
    "mcp NAME": lambda user: dict.fromkeys(user.read_settings().mcp, ""),
    "remote NAME": lambda user: {one.name: one.url for one in user.read_remotes()},
    "editor NAME": lambda _: {name: editor.title for name, editor in EDITORS.items()},
}
"""Values that depend on the user's files: by option, by metavar, or by command and metavar."""
WORDS = {
    "run": [Action([], "words", metavar="MODEL")],
    "complete": [Action([], "words", metavar="MODEL"), Action([], "words", metavar="FILE")],
    "serve": [Action([], "words", metavar="MODEL", nargs="*")],
    "mcp": [Action([], "words", metavar="NAME"), Action([], "words", metavar="COMMAND", nargs="*")],
    "service": [Action([], "words", choices=ACTIONS)],
    "stats": [Action([], "words", choices=("completion",))],
}
"""Positional words of the commands that parse them in `name_words`, unknown to the parser."""
NOTHING = Action([], "nothing")
