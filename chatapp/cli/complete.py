"""`chatapp complete`: fill in code at a place in a file."""

import argparse
import json
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from chatapp.cli.arguments import (
    Parser,
    add_generation,
    add_output,
    parse_number,
    read_form,
    read_options,
    read_placement,
)
from chatapp.cli.printing import Form, end_line, note, print_logprobs, print_stats, stoppable, write
from chatapp.cli.progress import open_model
from chatapp.text.errors import InputError
from chatapp.text.files import read_input
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.completion.request import Request, Suggestion
    from chatapp.generation import Engine

DETAILS = """\
MODEL is as for `run`, the default is builtin. FILE is the file, `-` or nothing is standard input;
a single argument is the file. What stands far from the place is left out when the context is full.

Where 30 characters or more before the place stand elsewhere in the file too, what follows them there
is offered first; a shorter match is, where the model is unsure (its tokens' mean probability is below
0.5). The model's likeliest completion is given, or with -n 2 and more, several at a temperature of 0.6.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp complete [MODEL] [FILE | -] [--at LINE:COL] [options]"
    parser.add_details(DETAILS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--at", metavar="LINE:COL", type=parse_place, help="where, as editors count, from 1:1 (default: the end)"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--lines", metavar="K", type=parse_number, default=1, help="up to K lines (default: 1)")
    length.add_argument("--multiline", action="store_const", const=None, dest="lines", help="until the model ends")
    parser.add_argument("--no-recall", action="store_true", help="do not offer what the file itself has")
    add_generation(parser, temperature="see above", max_tokens="64 in one line, else 256")
    add_output(parser)
    parser.set_defaults(name_words=name_words, think=None, objective="completion")


def parse_place(text: str) -> tuple[int, int]:
    """Parse a line and a column."""
    found = re.fullmatch(r"([1-9]\d{0,8}):([1-9]\d{0,8})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not LINE:COL, both counted from 1, such as 12:5")
    return int(found[1]), int(found[2])


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Take the model and the file from the words, and return those that are too many."""
    *model, given.file = words[:2] or ["-"]
    given.model = model[0] if model else None
    return words[2:]


def run(given: Namespace) -> int:
    """Print what the file itself has, and what the model says."""
    from chatapp.completion.request import Request

    chosen = read_options(given)
    name = "standard input" if given.file == "-" else given.file
    prefix, suffix = split_at(read_input(given.file), given.at, name)
    request = Request(
        prefix,
        suffix,
        chosen,
        lines=given.lines,
        recalling=not given.no_recall,
        pick_temperature=given.temperature is None,
    )
    workspace = Workspace()
    model = given.model or workspace.read_settings().model

    def open_engine() -> "Engine":
        return open_model(workspace, read_placement(given), model).engine

    return complete(request, open_engine, read_form(given))


def split_at(text: str, at: tuple[int, int] | None, file: str) -> tuple[str, str]:
    """The text before and after a place: line and column as editors count, from 1; None is the end."""
    if at is None:
        return text, ""
    line, column = at
    lines = text.split("\n")
    if line > len(lines):
        raise InputError(f"{file} has {len(lines):,} lines, so {line}:{column} is outside it; give another --at")
    width = len(lines[line - 1].removesuffix("\r"))
    if column > width + 1:
        raise InputError(
            f"line {line} of {file} ends at column {width + 1}, so {line}:{column} is outside it; give another --at"
        )
    start = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    return text[:start], text[start:]


def complete(request: "Request", open_engine: Callable[[], "Engine"], form: Form) -> int:
    """Print the offers for a place, and return the exit code; the model is opened only if the file has too few."""
    from chatapp.completion.request import needs_model, offers

    engine = open_engine() if needs_model(request) else None
    if engine and not engine.can_infill:
        note("This model was not taught to fill gaps: it goes on from the place, and does not see what stands behind.")
    with stoppable() as stop:
        found = offers(engine, request, lambda: not stop.is_set())
    print_offers(found, form)
    if not found:
        note("Nothing to offer here; --lines 3 looks further.")
    if stop.is_set():
        note("Interrupted.")
    if form.stats and engine and engine.last_usage:
        print_stats(engine.last_usage, form.stats)
    elif form.stats == "text":
        note("No model ran: the file itself had this.")
    return 130 if stop.is_set() else 0


def print_offers(found: Sequence["Suggestion"], form: Form) -> None:
    """Print every offer: one line of JSON each, or the texts, with a heading where they have many lines."""
    headed = any("\n" in offer.text for offer in found) and len(found) > 1
    for place, offer in enumerate(found, 1):
        reply = offer.reply
        if form.json:
            facts = {"text": reply.text, "source": offer.source, "finish_reason": reply.finish_reason}
            tokens = {"tokens": [asdict(token) for token in reply.tokens]} if form.logprobs else {}
            print(json.dumps(facts | {"logprob": reply.mean_logprob} | tokens), flush=True)
            continue
        if headed:
            note(f"offer {place} of {len(found)}, from the {offer.source}")
        write(reply.text, form)
        end_line(reply.text, form)
        if form.logprobs:
            print_logprobs(reply.tokens)
