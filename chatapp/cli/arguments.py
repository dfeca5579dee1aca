"""Arguments shared by several commands, and functions that read them; imports nothing heavy."""

import argparse
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from backends.suggest import suggest
from chatapp.settings.settings import OBJECTIVES
from chatapp.text.errors import InputError, UsageError
from chatapp.text.files import read_input
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from chatapp.cli.printing import Form
    from chatapp.placement.selection import PlacementOptions

STATS_FORMATS = ("text", "json")
OFFLINE = "never use the network"
"""The help of `--offline`, which every command takes."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """A help formatter with a column wide enough for our longest options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """A parser with one-line errors, which does not accept abbreviated options."""

    def __init__(self, **options: Any) -> None:  # Any: argparse's own
        super().__init__(formatter_class=Formatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and message.endswith(f"required: {action.metavar}"):
                message = f"no {action.metavar} given; choose from {', '.join(action.choices)}"
        self.exit(2, f"Error: {printable(message)}; see {self.prog} --help\n")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print help at once: argparse would hide that the disk is full."""
        if file is not sys.stdout:
            return super()._print_message(message, file)
        print(message, end="", flush=True)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a value that is not one of the choices, suggesting the nearest."""
        if action.choices is not None and value not in action.choices:
            choices = [str(one) for one in action.choices]
            hint = suggest(str(value), choices, f"choose from {', '.join(choices)}")
            raise argparse.ArgumentError(action, f"unknown value {value!r}; {hint}")


def add_generation(parser: Parser, *, temperature: str, max_tokens: str) -> None:
    """Add the generation options, named as the fields of `Options`; two defaults are given as texts for the help."""
    from chatapp.generation.options import KNOBS, ORDER

    group = parser.add_argument_group("generation", "The publisher's recommendations override these defaults.")
    more = parser.add_argument_group("generation, seldom needed", "Details and order: docs/sampling.md.")
    for name, knob in KNOBS.items():
        default = temperature if name == "temperature" else f"{knob.default:g}"
        option, kind, help_ = name_flag(name), type(knob.default), knob.help.format(default=default)
        (more if knob.rare else group).add_argument(option, metavar=knob.metavar, type=kind, help=help_)
    more.add_argument(
        "--dry-breaker",
        metavar="TEXT",
        action="append",
        dest="dry_breakers",
        help="tokens that contain TEXT end a DRY sequence; repeatable, '' for none (default: newline : \" *)",
    )
    more.add_argument(
        "--dry-whole-words", action="store_const", const=True, help="exempt tokens inside a word from DRY"
    )
    more.add_argument(
        "--bad-word", metavar="TEXT", action="append", dest="bad_words", help="never generate TEXT; repeatable"
    )
    more.add_argument(
        "--sampler-order", metavar="NAME,...", type=parse_order, help=f"sampler order (default: {', '.join(ORDER)})"
    )
    group.add_argument(
        "--logit-bias", metavar="ID=BIAS", type=parse_bias, action="append", help="bias a token's logit; repeatable"
    )
    group.add_argument("--logprobs", metavar="K", type=int, help="print log-probabilities, and the K likeliest tokens")
    group.add_argument("--seed", metavar="N", type=int, help="make the answer reproducible (default: random)")
    group.add_argument("--max-tokens", metavar="N", type=int, help=f"generate at most N tokens (default: {max_tokens})")
    group.add_argument("--stop", metavar="TEXT", action="append", help="stop before TEXT; repeatable")
    group.add_argument("-n", "--n", metavar="N", type=int, help="generate N completions (default: 1)")
    add_placement(parser)


def add_grammars(parser: Parser) -> None:
    """Add the options that constrain the whole answer."""
    group = parser.add_argument_group("constraints", "Give at most one. Details: docs/constraints.md.")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--json-schema", metavar="FILE", help="answer with JSON that matches the schema in FILE")
    which.add_argument("--json-object", action="store_const", const=True, help="answer with any JSON object")
    which.add_argument("--regex", metavar="PATTERN", help="answer with text that PATTERN matches as a whole")
    which.add_argument("--grammar", metavar="FILE", help="answer with text of the Lark grammar in FILE")
    which.add_argument("--choice", metavar="TEXT", action="append", help="answer with one of the TEXTs; repeatable")


def add_speculation(parser: Parser) -> None:
    """Add the options of speculative decoding."""
    group = parser.add_argument_group("speculation", "Faster decoding of the same text. Details: docs/speculation.md.")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--speculate",
        action="store_const",
        const=True,
        help="guess tokens, even with --seed or at int8 (default: where it is faster and the text stays the same)",
    )
    which.add_argument(
        "--no-speculate", action="store_const", const=False, dest="speculate", help="decode one token at a time"
    )
    group.add_argument("--draft-model", metavar="NAME", help="guess with a smaller model of the same vocabulary")
    group.add_argument(
        "--check-lossless", action="store_true", help="answer again without guesses and compare token by token"
    )


def add_beams(parser: Parser) -> None:
    """Add the options of beam search."""
    group = parser.add_argument_group("beam search", "Instead of sampling. Details: docs/sampling.md.")
    group.add_argument("--num-beams", metavar="N", type=int, help="search with N beams; -n of them are printed")
    group.add_argument(
        "--length-penalty", metavar="L", type=float, help="divide scores by length to the power of L (default: 1)"
    )
    group.add_argument(
        "--early-stopping",
        metavar="WHEN",
        type=parse_early_stopping,
        help="true: stop at N texts, false: when better is unlikely, never: when it is impossible (default: false)",
    )
    group.add_argument("--num-beam-groups", metavar="G", type=int, help="G groups that avoid each other's tokens")
    group.add_argument("--diversity-penalty", metavar="D", type=float, help="how strongly groups do so")
    group.add_argument(
        "--beam-sampling", action="store_const", const=True, help="sample the beams, with the options of generation"
    )
    group.add_argument(
        "--show-beams", action="store_true", help="print on standard error which beams continue, end and are dropped"
    )


def name_flag(option: str) -> str:
    """The command-line option for a field of Options."""
    return "--" + {"dry_breakers": "dry_breaker", "bad_words": "bad_word"}.get(option, option).replace("_", "-")


def read_options(given: Namespace) -> dict[str, Any]:  # Any: each option has its own type, which Options checks
    """The generation options given, checked before a model is opened; the rest are left to the model's defaults."""
    from dataclasses import fields

    from chatapp.generation import OptionError, Options

    names = [field.name for field in fields(Options) if field.name != "tools"]  # --tools names servers instead
    chosen = {name: value for name in names if (value := getattr(given, name, None)) is not None}
    if "logit_bias" in chosen:
        chosen["logit_bias"] = dict(chosen["logit_bias"])
    if "dry_breakers" in chosen:
        chosen["dry_breakers"] = tuple(filter(None, chosen["dry_breakers"]))
    for name in ("json_schema", "grammar"):
        if name in chosen:
            chosen[name] = read_input(chosen[name])
    options = Options(**chosen)
    if options.constraint:
        from chatapp.generation.decoding.grammar import check_grammar

        check_grammar(options)
    if getattr(given, "draft_model", None):
        if not chosen.setdefault("speculate", True):
            raise OptionError("--draft-model and --no-speculate contradict each other; leave one out")
        for name in ("n", "num_beams"):
            if chosen.get(name, 1) > 1:
                message = f"--draft-model works for one text, and {name} asks for several; leave one out"
                raise OptionError(message, name)
    check_beam_options(chosen)
    if getattr(given, "show_beams", False) and chosen.get("num_beams", 1) == 1:
        raise OptionError("--show-beams needs a beam search; add --num-beams")
    return chosen


def check_beam_options(chosen: Mapping[str, Any]) -> None:
    """Refuse beam options that contradict each other or would have no effect, before a model is opened."""
    from chatapp.generation import OptionError
    from chatapp.generation.options import BEAM_OPTIONS, ORDER, Options, check_together

    beams = {
        name: chosen[name] for name in ("num_beams", "n", "mirostat_tau", "speculate", *BEAM_OPTIONS) if name in chosen
    }
    check_together(Options(**beams))
    if chosen.get("num_beams", 1) > 1 and not chosen.get("beam_sampling"):
        drawing = [name for name in (*ORDER, "xtc_probability", "dynamic_temperature", "seed") if name in chosen]
        if idle := [name for name in drawing if name != "temperature" or chosen[name]]:
            message = f"{idle[0]} is for sampling, and a beam search does not sample; add --beam-sampling"
            raise OptionError(message, idle[0])


def add_placement(parser: Parser) -> None:
    """Add the options for where and how a model runs."""
    group = parser.add_argument_group("placement")
    group.add_argument(
        "--backend", metavar="NAME", type=check_backend, help="see `chatapp devices` (default: the best)"
    )
    group.add_argument("--device", metavar="NAME", help="see `chatapp devices` (default: the best)")
    group.add_argument(
        "--precision",
        metavar="NAME",
        type=check_precision,
        help="f32, int8, int4, mxfp4, ... (default: see `chatapp show`)",
    )
    group.add_argument(
        "--objective",
        metavar="NAME",
        choices=OBJECTIVES,
        help="what to optimise for: chat, completion, throughput (many at once) or battery",
    )


def read_placement(given: Namespace) -> "PlacementOptions":
    """Where a model is to run: from the arguments, otherwise from the settings."""
    from chatapp.workspace import Workspace

    return Workspace().choose_placement(
        given.backend, device=given.device, precision=given.precision, objective=given.objective
    )


def add_remote(parser: Parser) -> None:
    """Add the options for a model on a server."""
    group = parser.add_argument_group("server", "Your text goes there. MODEL@SERVER works wherever MODEL does.")
    group.add_argument("--remote", metavar="SERVER", help="a name from `chatapp remote list`, or an address")
    group.add_argument("--model", dest="remote_model", metavar="NAME", help="one of its models (default: the first)")


def read_model(given: Namespace, name: str) -> str:
    """The model's name, as MODEL@SERVER for a remote one; `name` is the positional argument, or empty."""
    from chatapp.workspace import Workspace

    server, named = getattr(given, "remote", None), getattr(given, "remote_model", None)
    if named and not server:
        raise UsageError("--model names a model of a server; add --remote, or give the model as the first word")
    if server:
        if named and name:
            raise UsageError(f"two models were given, {name} and {named}; leave one out")
        name = f"{name or named or ''}@{server}"
        if not Workspace().split_remote(name):
            address = f"as an address: http://{server}" if ":" in server else "to see your servers: chatapp remote list"
            raise UsageError(f"unknown server {server!r}; {address}")
    if Workspace().split_remote(name):
        for option in ("backend", "device", "precision"):
            if getattr(given, option, None):
                raise UsageError(f"--{option} needs a model on this machine, and {name} is on a server; leave it out")
    return name


def add_output(parser: Parser) -> None:
    """Add the options for what is printed."""
    group, form = add_form(parser)
    form.add_argument("-x", "--extract", action="store_true", help="print only the first code block")
    group.add_argument("--stats", choices=STATS_FORMATS, metavar="[text|json]", help="print timings on standard error")


def add_form(parser: Parser) -> "tuple[argparse._ArgumentGroup, argparse._MutuallyExclusiveGroup]":
    """Add the options for how text is printed; returns their group and that of which only one may be given."""
    group = parser.add_argument_group("output")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per completion")
    form.add_argument("--raw", action="store_true", help="print control characters unchanged")
    return group, form


def name_stats_format(argv: Sequence[str]) -> list[str]:
    """Write `--stats` without a format as `--stats=text`: argparse would take the next word as its value."""
    return [
        "--stats=text" if word == "--stats" and not set(argv[place + 1 : place + 2]) & set(STATS_FORMATS) else word
        for place, word in enumerate(argv)
    ]


def read_form(given: Namespace) -> "Form":
    """The form in which answers are printed."""
    from chatapp.cli.printing import Form

    return Form(
        json=given.json,
        raw=given.raw,
        extract=given.extract,
        logprobs=given.logprobs is not None,
        thinking=given.think is True,
        beams=getattr(given, "show_beams", False),
        stats=given.stats,
    )


def add_setup(parser: Parser) -> None:
    """Add the options for how answers are made: system prompt, preset, thinking, tools."""
    from chatapp.generation.text.thinking import EFFORTS

    group = parser.add_argument_group("setup")
    group.add_argument("--system", metavar="TEXT|@NAME", help="the system prompt; @NAME takes it from the library")
    think = group.add_mutually_exclusive_group()
    think.add_argument("--think", action="store_true", default=None, help="think before answering, if the model can")
    think.add_argument("--no-think", dest="think", action="store_false", help="answer without thinking")
    effort = "how much to think, if the model can: low, medium or high"
    think.add_argument("--reasoning-effort", dest="think", choices=EFFORTS, metavar="E", help=effort)
    group.add_argument("--tools", metavar="SERVER", action="append", help="allow an MCP server's tools; repeatable")
    group.add_argument("--preset", metavar="NAME", help="named options: precise, creative, code, ... or your own")


def read_secret(name: str, read: Callable[[str], str]) -> str:
    """Read a token or key without echo, using `read`; if standard input is not a terminal, read a line of it."""
    try:
        found = read(f"{name.capitalize()} (not shown): ") if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:  # Ctrl+D
        found = ""
    if not found.strip():
        raise InputError(f"no {name} given; nothing changed")
    return found.strip()


def parse_number(text: str) -> int:
    """Parse a positive integer."""
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def parse_path(text: str) -> Path:
    """Parse a path; an empty one, which would mean the current folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def parse_bias(text: str) -> tuple[int, float]:
    """Parse ID=BIAS."""
    token, _, number = text.partition("=")
    try:
        return int(token), float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=BIAS, such as 50256=-100") from None


def parse_early_stopping(text: str) -> bool | str:
    """Parse true, false or never."""
    return {"true": True, "false": False}.get(text.lower(), text.lower())


def parse_order(text: str) -> tuple[str, ...]:
    """Parse comma-separated names of samplers."""
    return tuple(name.strip().replace("-", "_") for name in text.split(","))


def check_backend(text: str) -> str:
    """Check the name of a backend."""
    from backends import NAMES

    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"unknown backend {text!r}; choose from {', '.join(NAMES)}")
    return text


def check_precision(text: str) -> str:
    """Check the name of a precision."""
    from backends.quantize import PRECISIONS

    if text not in PRECISIONS:
        raise argparse.ArgumentTypeError(f"unknown precision {text!r}; choose from {', '.join(PRECISIONS)}")
    return text
