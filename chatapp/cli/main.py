"""The command line: a table of commands, of which only the one given is imported."""

import gc
import io
import os
import re
import signal
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import FrameType, ModuleType

from backends.suggest import suggest
from chatapp import __version__
from chatapp.cli import other_programs
from chatapp.cli.arguments import OFFLINE, Parser, name_flag, name_stats_format
from chatapp.settings import offline
from chatapp.text.errors import InputError, UsageError, one_line
from chatapp.text.printable import printable
from chatapp.text.signals import ENDING

COMMANDS = {
    "run": "answer one prompt, or chat line by line",
    "chat": "open the screen, or chat in plain lines",
    "desktop": "open the screen in its own window",
    "complete": "complete code at a position in a file",
    "lsp": "run the language server that editors start",
    "serve": "serve models over the APIs of OpenAI, Anthropic, Ollama, llama.cpp and KServe",
    "deploy": "run replicas of a model on many machines behind one server",
    "service": "start the server at login",
    "editor": "print an editor's configuration for code completion",
    "pull": "download a model, verify it and make it ready to run",
    "search": "find models to pull",
    "login": "save a Hugging Face Hub token, for gated and private models",
    "remote": "manage servers whose models you use",
    "mcp": "manage MCP servers whose tools a model may call",
    "list": "list the models on this machine",
    "import": "add a model on this machine to the store",
    "show": "show details of a model",
    "rm": "delete models",
    "cp": "give a model a second name",
    "du": "show the disk space that each model uses",
    "gc": "delete files that no model needs",
    "cache": "list or clear the caches of the runtimes",
    "devices": "list the backends and devices that work on this machine",
    "bench": "measure a model: load time, first token, decoding, memory",
    "replay": "recompute a saved answer and compare",
    "why": "show why a model runs where it does",
    "export": "export a model for another engine",
    "verify": "compare a model's logits with a reference",
    "stats": "show statistics of code completion in editors",
    "sessions": "manage saved conversations",
    "completion": "print a shell completion script",
    "version": "show the versions of chatapp and its dependencies",
}
"""The commands in the order of the help page. Each is a module with `add`, which adds its arguments, and `run`.

It may have `DETAILS`, shown on its own help page, and `name_words`, which assigns the positional words.
"""
ALIASES = {"ls": "list"}
GARBAGE = 10_000
"""Allocations before the garbage collector runs: importing makes no garbage, and this saves 20 ms."""
EPILOG = """\
Everything runs on this machine. Only pull, search, login and servers that you name use the network.
Answers go to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (the text so far is kept).
"""


def start() -> int:
    """Run the command this process was started with; returns the exit code."""
    gc.set_threshold(GARBAGE)
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, leave)
    try:
        return main()
    finally:
        gc.freeze()  # spare the collection at exit, which takes 30 ms


def leave(number: int, frame: FrameType | None) -> None:
    """Exit as on Ctrl+C, so that cleanup runs; further signals are ignored meanwhile."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    prepare_streams()
    try:
        argv = sys.argv[1:] if argv is None else argv
        check_text(argv)
        given = parse(argv)
        if given.offline or offline.wanted():
            offline.enforce()
        code = import_command(given.command or "chat").run(given) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        end_output()
        return 0
    except Exception as error:
        from chatapp.generation import OptionError

        if not (message := one_line(error)):
            raise
        if isinstance(error, OptionError):
            message = " ".join(error.spell(name_flag).split())
        print(f"Error: {printable(message)}", file=sys.stderr)
        end_output()
        return 2 if isinstance(error, OptionError | UsageError) else 1


def end_output() -> None:
    """Flush standard output; if that fails, redirect it so that Python's own flush at exit does not fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_streams() -> None:
    """Make the standard streams usable, even if the parent process closed them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # opened in this order they get the file descriptors 0, 1 and 2
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print ? for what the terminal's encoding lacks


def check_text(argv: Sequence[str]) -> None:
    """Refuse arguments that are not valid Unicode: file names, manifests and the history could not hold them."""
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"the argument '{word[:40]}' is not valid UTF-8 (character {error.start + 1:,}); convert it, or rename "
                "the file"
            ) from error


def import_command(name: str) -> ModuleType:
    """The module of a command."""
    return import_module(f"chatapp.cli.{ALIASES.get(name, name)}")


def parse(argv: Sequence[str]) -> Namespace:
    """Parse the arguments; `command` is None for the screen. Exits with 2 if they are wrong."""
    if argv and argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    parser, commands = build_parsers(argv)
    first = argv[0] if argv else "-"
    if not first.startswith("-") and first not in commands:
        meant = hint(first, commands, other_programs.COMMANDS) or f"; to run a model: chatapp run {first}"
        parser.error(f"unknown command {first!r}{meant}")
    takes_words = first in commands and commands[first].get_default("name_words")
    end = argv.index("--") if takes_words and "--" in argv else len(argv)
    rest = argv[end + 1 :]
    options = [word for word in argv[:end] if word != "--offline"]
    short = (word for word in options if word in other_programs.OPTIONS and not word.startswith("--"))
    refuse_options(commands.get(first, parser), short)  # argparse would take -ngl for -n gl
    given, words = parser.parse_known_args(name_stats_format(options))
    given.offline = len(options) < end  # --offline may stand anywhere
    used = commands.get(given.command, parser)
    refuse_options(used, (word for word in words if word.startswith("-") and word != "-"))
    words = [*given.words, *words, *rest]
    if extra := given.name_words(used, given, words) if given.name_words else words:
        used.error(f"unexpected argument {extra[0]!r}")
    if given.command and (given.screen_model or given.screen_remote):
        name = "--model" if given.screen_model else "--remote"
        parser.error(f"{name} before a command applies to the screen; put it after {given.command}")
    return given


def refuse_options(used: Parser, words: Iterable[str]) -> None:
    """Refuse options that a command does not know, and tell what is meant by the first."""
    for word in words:
        listed = "".join(line for line in used.format_help().splitlines() if line.startswith("  -"))  # not in examples
        known = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", listed)
        if (name := word.partition("=")[0]) not in known:
            meant = used.get_default("option_hint") or hint(name, known, other_programs.OPTIONS)
            used.error(f"unknown option {name}{meant}")


def build_parsers(argv: Sequence[str]) -> tuple[Parser, dict[str, Parser]]:
    """The main parser, and the commands' parsers by name; only commands named in `argv` get their arguments."""
    parser = Parser(
        prog="chatapp",
        description="Chat and complete code with a model that runs on this machine. Without COMMAND, opens the screen.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"chatapp {__version__}")
    parser.add_argument("--offline", action="store_true", help=f"with any command: {OFFLINE}")
    parser.add_argument("--model", dest="screen_model", metavar="MODEL", help="the screen's model (default: builtin)")
    parser.add_argument(
        "--remote", dest="screen_remote", metavar="SERVER", help="use a model of this server: a name or an address"
    )
    parser.set_defaults(plain=False, system=None, preset=None, think=None, tools=None, words=[], name_words=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        about = f"{summary[0].upper()}{summary[1:]}."
        added: Parser = commands.add_parser(name, aliases=names[1:], help=summary, description=about)
        if not {*names}.isdisjoint(argv):
            add_command(added, import_command(name))
    return parser, dict(commands.choices)


def add_command(parser: Parser, module: ModuleType) -> None:
    """Add a command's help and arguments to its parser; with `name_words`, words may stand among the options."""
    has = vars(module)
    parser.description = f"{parser.description}\n\n{has.get('DETAILS', '')}".strip()
    module.add(parser)
    if "name_words" in has:
        parser.add_argument("words", nargs="*", default=[], help=SUPPRESS)
        parser.set_defaults(name_words=has["name_words"])


def hint(word: str, known: Iterable[str], others: Mapping[str, str]) -> str:
    """What a word of another program is called here, or the nearest known word, to be appended to an error."""
    from chatapp.commands.parameters import ABSENT
    from chatapp.settings.settings import home

    told = others.get(word, word)
    told = ABSENT.get(told, told)
    told = told.replace("HOME", str(home())) if "HOME" in told else told
    nearest = told if " " in told else suggest(told, known)
    return f"; {nearest}" if nearest else ""
