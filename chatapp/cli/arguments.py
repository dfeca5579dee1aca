"""What the command line accepts, as argparse sees it; nothing heavy is imported to show a help page."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from chatapp import __version__
from chatapp.cli import session_arguments, store_arguments
from chatapp.settings.settings import OBJECTIVES
from chatapp.text.printable import printable
from chatapp.text.suggest import suggest

EPILOG = """\
Everything runs on this machine; only pull, search and login use the network.
Text goes to standard output, everything else to standard error.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (what was written is kept).
"""

RUN = """\
MODEL is builtin, a name from `chatapp list`, the folder of a checkpoint, or a GGUF file.
PROMPT is the text; `-` is standard input, and so is no prompt where that is not a terminal.
A model with a chat template answers; any other continues the text, by 256 tokens unless told.

With -c or --session, a single argument is the PROMPT: the model is the one that answered before.

Line by line: /? lists the commands, such as /clear and /bye; three double quotes begin and end several lines,
Ctrl+C stops an answer and, where there is none, leaves.
"""
COMPLETE = """\
MODEL is as for `run`, the default is builtin. FILE is the file, `-` or nothing is standard input;
a single argument is the file. What stands far from the place is left out when the context is full.

Where 30 characters or more before the place stand elsewhere in the file too, what follows them there
is offered first; a shorter match is, where the model is unsure (its tokens' mean probability is below
0.5). The model's likeliest completion is given, or with -n 2 and more, several at a temperature of 0.6.
"""
WHY = """\
A model is timed and checked on every backend and device when it is first used, and runs on the best one.
"""
VERIFY = """\
Reads fixed prompts with the backend, device and precision that would run, in prefill, token by token and in
batches, and compares the logits with the NumPy decoder's on the original checkpoint. The verdict is kept with the
lowered model, and what failed is not chosen by itself any more. The exit code is 1 if it failed.

FILE is a reference made elsewhere: .npz or .safetensors with `tokens` (rows, length) and `logits`
(rows, positions, vocabulary); --write makes one.
"""
REMOVE = "A checkpoint that was pulled is deleted too; a checkpoint folder of your own is never touched."
PULL = """\
NAME is in the catalogue (`chatapp search` lists it) or a repository of the Hugging Face Hub, as
ORGANISATION/NAME, or ORGANISATION/NAME@REVISION. What was interrupted goes on where it stopped.
HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and the proxy variables count as elsewhere.
"""
SEARCH = "Without TEXT: the catalogue, without asking the network. With it, also what the Hub has that runs here."
LOGIN = "The token is read without showing it, or from standard input, and kept where huggingface_hub keeps it."
IMPORT = """\
PATH is the folder of a checkpoint, a GGUF file, ollama:NAME[:TAG], lmstudio:PUBLISHER/REPOSITORY, or a repository
ORGANISATION/NAME in the cache of the Hugging Face Hub. What is linked must stay where it is.
"""
CHAT = """\
Without --plain it is the screen, as without any command. The plain mode prints lines and nothing else: no colours,
no cursor that jumps. It is for screen readers, and for terminals that can do no more (TERM=dumb chooses it).
"""
STATS_FORMATS = ("text", "json")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help pages with room for our longest options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {printable(message)}; see {self.prog} --help\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the name of the command in `command` (None: the screen); exits with 2 if they are wrong."""
    parser, commands = parser_and_commands()
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        parser.error(f"there is no command {argv[0]!r}{_did_you_mean(argv[0], commands)}")
    end = argv.index("--") if "--" in argv and argv[0] in ("run", "complete") else len(argv)
    offline = "--offline" in argv[:end]  # wherever it stands
    argv = [word for word in argv[:end] if word != "--offline"] + list(argv[end:])
    end = argv.index("--") if end < len(argv) else len(argv)
    arguments, rest = parser.parse_known_args(_with_stats_format(argv[:end]))
    arguments.offline = offline
    used = commands.get(arguments.command, parser)
    for name in rest:
        if name.startswith("-") and name != "-":
            known = re.findall(r"--[a-z][a-z-]*", used.format_help())
            used.error(f"there is no option {name}{_did_you_mean(name, known)}")
    _take_words(used, arguments, [*rest, *argv[end + 1 :]])
    if arguments.command and arguments.screen_model:
        parser.error(f"--model is for the screen; write: chatapp {arguments.command} {arguments.screen_model}")
    return arguments


def _with_stats_format(argv: Sequence[str]) -> list[str]:
    """Say `--stats=text` where `--stats` has no format, which argparse would look for in the word that follows."""
    return [
        "--stats=text" if word == "--stats" and not set(argv[place + 1 : place + 2]) & set(STATS_FORMATS) else word
        for place, word in enumerate(argv)
    ]


def _take_words(parser: Parser, arguments: argparse.Namespace, rest: list[str]) -> None:
    """Name the words of `run` and `complete`: argparse does not find those that follow an option."""
    extra = rest
    if arguments.command == "run":
        words = arguments.words + rest
        if arguments.resume or arguments.session:
            words = [None, *words] if len(words) < 2 else words  # the model is the conversation's
        if not words:
            parser.error("which model? `chatapp list` shows those that are here")
        arguments.model, arguments.prompt, extra = words[0], words[1] if words[1:] else None, words[2:]
    elif arguments.command == "complete":
        words = arguments.words + rest
        *model, arguments.file = words[:2] or ["-"]
        arguments.model, extra = model[0] if model else None, words[2:]
    if extra:
        parser.error(f"there is one argument too many: {extra[0]!r}")


def parser_and_commands() -> tuple[Parser, dict[str, Parser]]:
    """The parser of everything, and those of the commands by name."""
    parser = Parser(
        prog="chatapp",
        description="Chat and complete code with a model that runs on this machine. Without a command: a screen.",
        epilog=EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"chatapp {__version__}")
    parser.add_argument("--offline", action="store_true", help="with any command: refuse the network altogether")
    parser.add_argument("--model", dest="screen_model", metavar="MODEL", help="the screen's model (default: builtin)")
    parser.set_defaults(plain=False, system=None, preset=None, think=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)

    def command(
        name: str, summary: str, *, usage: str = "", details: str = "", aliases: tuple[str, ...] = ()
    ) -> Parser:
        added: Parser = commands.add_parser(
            name,
            help=summary,
            usage=f"chatapp {name} {usage}" if usage else None,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}".strip(),
            aliases=aliases,
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        return added

    run = command("run", "answer one prompt, or talk line by line", usage="MODEL [PROMPT | -] [options]", details=RUN)
    run.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    add_generation(run, temperature="0.8", max_tokens="until the context is full; see above")
    session_arguments.add_setup(run)
    session_arguments.add_conversation(run)
    add_output(run)

    chat = command("chat", "open the screen, or talk in plain lines", usage="[MODEL] [options]", details=CHAT)
    chat.add_argument("model", metavar="MODEL", nargs="?", help="as for run (default: the one in settings.toml)")
    chat.add_argument("--plain", action="store_true", help="lines only, for screen readers")
    session_arguments.add_setup(chat)

    usage = "[MODEL] [FILE | -] [--at LINE:COL] [options]"
    complete = command("complete", "fill in code at a place in a file", usage=usage, details=COMPLETE)
    complete.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    complete.set_defaults(think=None)
    complete.add_argument(
        "--at", metavar="LINE:COL", type=_place, help="where, as editors count, from 1:1 (default: the end)"
    )
    length = complete.add_mutually_exclusive_group()
    length.add_argument(
        "--lines", metavar="K", type=session_arguments.number, default=1, help="up to K lines (default: 1)"
    )
    length.add_argument("--multiline", action="store_const", const=None, dest="lines", help="until the model ends")
    complete.add_argument("--no-recall", action="store_true", help="do not offer what the file itself has")
    add_generation(complete, temperature="see above", max_tokens="64 in one line, else 256")
    add_output(complete)

    pull = command("pull", "download a model, verify it, and make it ready to run", details=PULL)
    pull.add_argument("name", metavar="NAME")
    pull.add_argument("--dry-run", action="store_true", help="only show what would be downloaded, and whether it fits")
    pull.add_argument("--force", action="store_true", help="download what does not fit this machine")
    pull.add_argument("--json", action="store_true", help="print the plan and the progress as lines of JSON")
    add_placement(pull)

    search = command("search", "find models to pull", details=SEARCH)
    search.add_argument("text", metavar="TEXT", nargs="?")
    search.add_argument("--json", action="store_true", help="print JSON")

    command("login", "keep a token of the Hugging Face Hub, for gated and private models", details=LOGIN)

    listing = command("list", "list the models that are here", aliases=("ls",))
    listing.add_argument("--cache", action="store_true", help="those in the cache of the Hugging Face Hub instead")
    listing.add_argument("--json", action="store_true", help="print JSON")

    imported = command("import", "bring a model that is on this machine into the store", details=IMPORT)
    imported.add_argument("source", metavar="PATH")
    imported.add_argument("--name", metavar="NAME", help="what it is to be called (default: after the file or folder)")
    how = imported.add_mutually_exclusive_group()
    how.add_argument("--link", action="store_true", help="leave the files where they are (default)")
    how.add_argument("--copy", action="store_true", help="copy them into the store")
    imported.add_argument("--dry-run", action="store_true", help="only show what would be imported")
    imported.add_argument("--json", action="store_true", help="print JSON")

    show = command("show", "tell about a model")
    show.add_argument("model", metavar="MODEL")
    show.add_argument("--json", action="store_true", help="print JSON")

    remove = command("rm", "delete what was made for a model", details=REMOVE)
    remove.add_argument("models", metavar="MODEL", nargs="+")

    store_arguments.add_commands(lambda name, summary, details: command(name, summary, details=details))

    devices = command("devices", "list the backends and devices that are usable here")
    devices.add_argument("--json", action="store_true", help="print JSON")

    bench = command("bench", "time a model: loading, first token, decoding, memory")
    bench.add_argument("model", metavar="MODEL")
    bench.add_argument(
        "--tokens", metavar="N", type=session_arguments.number, default=64, help="decode steps timed (default: 64)"
    )
    bench.add_argument("--load", action="store_true", help="time only how it loads")
    bench.add_argument("--all-backends", action="store_true", help="one after the other, each in a fresh process")
    form = bench.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print a row for each figure")
    bench.add_argument("--steps", action="store_true", help=argparse.SUPPRESS)  # for jobs.py
    add_placement(bench)

    why = command("why", "tell why a model runs where it does, as measured here", details=WHY)
    why.add_argument("model", metavar="MODEL")
    why.add_argument("--again", action="store_true", help="measure anew")
    why.add_argument("--json", action="store_true", help="print JSON")
    add_placement(why)

    verify = command("verify", "compare a model's logits with a reference", details=VERIFY)
    verify.add_argument("model", metavar="MODEL")
    verify.add_argument(
        "--against", metavar="torch|FILE", type=_reference, help="PyTorch, or a file (default: the NumPy decoder)"
    )
    verify.add_argument("--write", metavar="FILE", type=_npz, help="keep the reference as .npz, for use elsewhere")
    verify.add_argument("--json", action="store_true", help="print JSON")
    verify.add_argument("--steps", action="store_true", help=argparse.SUPPRESS)
    add_placement(verify)

    session_arguments.add_actions(
        command("sessions", "look after your conversations", details=session_arguments.DETAILS)
    )
    command("version", "tell the versions of chatapp and of what it runs on")
    return parser, dict(commands.choices)


def add_generation(parser: Parser, *, temperature: str, max_tokens: str) -> None:
    """Options of every command that generates, with two defaults in words; their names are those of `Options`."""
    group = parser.add_argument_group("generation", "What the model's publisher recommends counts before our defaults.")
    group.add_argument("--temperature", metavar="T", type=float, help=f"0 is greedy (default: {temperature})")
    group.add_argument("--top-k", metavar="K", type=int, help="keep the K likeliest tokens; 0: all (default: 40)")
    group.add_argument("--top-p", metavar="P", type=float, help="keep the likeliest, up to P in sum (default: 0.95)")
    group.add_argument("--min-p", metavar="P", type=float, help="drop those below P times the best (default: 0)")
    group.add_argument("--repetition-penalty", metavar="R", type=float, help="for tokens in prompt or reply; 1: none")
    group.add_argument("--presence-penalty", metavar="P", type=float, help="for tokens in the reply (default: 0)")
    group.add_argument("--frequency-penalty", metavar="P", type=float, help="for each time they are (default: 0)")
    group.add_argument("--logit-bias", metavar="ID=BIAS", type=_bias, action="append", help="for one token; repeatable")
    group.add_argument("--logprobs", metavar="K", type=int, help="log-probabilities, also of the K likeliest tokens")
    group.add_argument("--seed", metavar="N", type=int, help="the same seed gives the same text")
    group.add_argument("--max-tokens", metavar="N", type=int, help=f"at most N (default: {max_tokens})")
    group.add_argument("--stop", metavar="TEXT", action="append", help="end before this text; repeatable")
    group.add_argument("-n", "--n", metavar="N", type=int, help="so many completions (default: 1)")
    add_placement(parser)


def add_placement(parser: Parser) -> None:
    """Where and how a model is to run."""
    group = parser.add_argument_group("placement")
    group.add_argument("--backend", metavar="NAME", type=_backend, help="see `chatapp devices` (default: the best)")
    group.add_argument("--device", metavar="NAME", help="see `chatapp devices` (default: the best)")
    group.add_argument(
        "--precision", metavar="NAME", type=_precision, help="f32, int8, int4, mxfp4, ... (default: see `chatapp show`)"
    )
    group.add_argument(
        "--objective",
        metavar="NAME",
        choices=OBJECTIVES,
        help="what it should be best for: chat, completion or battery",
    )


def add_output(parser: Parser) -> None:
    """What is printed besides the text, and how."""
    group = parser.add_argument_group("output")
    group.add_argument("--stats", choices=STATS_FORMATS, metavar="[text|json]", help="timings, on standard error")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object per completion instead of text")
    form.add_argument("--raw", action="store_true", help="leave control characters as the model wrote them")


def _did_you_mean(word: str, known: Sequence[str] | dict[str, Parser]) -> str:
    near = suggest(word, known)
    return f"; {near}" if near else ""


def _place(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,8}):([1-9]\d{0,8})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not LINE:COL, both counted from 1, such as 12:5")
    return int(found[1]), int(found[2])


def _bias(text: str) -> tuple[int, float]:
    token, separator, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=BIAS, such as 50256=-100") from None


def _reference(text: str) -> str:
    if text != "torch" and not text.endswith((".npz", ".safetensors")):
        raise argparse.ArgumentTypeError(f"{text!r} is neither torch nor a file called .npz or .safetensors")
    return text


def _npz(text: str) -> str:
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .npz")
    return text


def _backend(text: str) -> str:
    from backends import NAMES

    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"there is no backend {text!r}; choose from {', '.join(NAMES)}")
    return text


def _precision(text: str) -> str:
    from backends.quantize import PRECISIONS

    if text not in PRECISIONS:
        raise argparse.ArgumentTypeError(f"there is no precision {text!r}; choose from {', '.join(PRECISIONS)}")
    return text
