"""`chatapp complete`: complete code at a position in a file."""

import argparse
import json
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_form, add_placement, add_remote, parse_number, read_model, read_placement
from chatapp.cli.printing import Form, end_line, note, stoppable, write
from chatapp.cli.progress import open_model
from chatapp.text.errors import InputError
from chatapp.text.files import read_input
from chatapp.text.printable import printable
from chatapp.text.units import table
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.completion.completer import Offer
    from chatapp.completion.index import FolderIndex

DETAILS = """\
MODEL is as for `chatapp run` (default: builtin). A single argument is FILE; `-`, or no FILE, is standard input.
If the file does not fit the context, text far from the position is left out.

Suggestions come from the model, and from what follows the same text elsewhere in the file and the project. They are
ranked by how likely they are to be right, as those that `chatapp lsp` shows in an editor.
"""
ALL = 50
"""Offers that `--explain` shows."""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp complete [MODEL] [FILE | -] [--at LINE:COL] [options]"
    parser.add_argument(
        "--at", metavar="LINE:COL", type=parse_place, help="the position, counted from 1:1 (default: the end)"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--lines", metavar="K", type=parse_number, default=1, help="up to K lines (default: 1)")
    length.add_argument("--multiline", action="store_const", const=None, dest="lines", help="the lines of the block")
    parser.add_argument("--no-recall", action="store_true", help="suggest only what the model writes")
    parser.add_argument("--project", metavar="DIR", help="suggest from the other files of DIR too")
    parser.add_argument("-n", "--n", metavar="N", type=parse_number, default=1, help="print N suggestions (default: 1)")
    parser.add_argument("--explain", action="store_true", help="show the source and rank of all suggestions")
    add_placement(parser)
    add_remote(parser)
    add_form(parser)
    parser.set_defaults(think=None, objective="completion")


def parse_place(text: str) -> tuple[int, int]:
    """Parse a line and a column."""
    found = re.fullmatch(r"([1-9]\d{0,8}):([1-9]\d{0,8})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not LINE:COL, such as 12:5")
    return int(found[1]), int(found[2])


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Assign MODEL and FILE from the words; returns the surplus."""
    *model, given.file = words[:2] or ["-"]
    given.model = model[0] if model else None
    placed = re.fullmatch(r"(.+?):(\d+:\d+)", given.file)
    if placed and not Path(given.file).exists():
        parser.error(f"there is no file {given.file}; for a position in a file: {placed[1]} --at {placed[2]}")
    return words[2:]


def run(given: Namespace) -> int:
    """Print the offers for the position."""
    from chatapp.completion.completer import Completer
    from chatapp.completion.place import AFTER, BEFORE, Place

    name = "standard input" if given.file == "-" else given.file
    prefix, suffix = split_at(read_input(given.file), given.at, name)
    path = None if given.file == "-" else Path(given.file).absolute()
    place = Place(prefix[-BEFORE:], suffix[:AFTER], path, folder=read_folder(given.project) if given.project else None)
    workspace = Workspace(shares=True)
    model = read_model(given, given.model or ("" if given.remote else workspace.read_settings().model))
    engine = open_model(workspace, read_placement(given), model).engine
    if not engine.can_infill:
        note("This model was not trained to fill gaps: it continues the text and does not see what comes after.")
    completer = Completer(engine, matching=not given.no_recall)
    with stoppable() as stop:
        found = completer.offers(
            place, ALL if given.explain else given.n, invoked=True, lines=given.lines, wanted=lambda: not stop.is_set()
        )
    form = Form(json=given.json, raw=given.raw)
    print_offers(found[: given.n], form)
    if given.explain:
        explain(found, given.n, completer.threshold)
    if stop.is_set():
        note("Interrupted.")
    elif not found:
        note("No suggestion here.")
    return 130 if stop.is_set() else 0


def read_folder(project: str) -> "FolderIndex":
    """An index of a project's files."""
    from chatapp.completion.index import FolderIndex

    folder = FolderIndex(Path(project))
    folder.scan()
    if folder.notice:
        note(folder.notice)
    return folder


def split_at(text: str, at: tuple[int, int] | None, file: str) -> tuple[str, str]:
    """The text before and after a position (line and column from 1; None is the end)."""
    if at is None:
        return text, ""
    line, column = at
    lines = text.split("\n")
    if line > len(lines):
        has = f"{len(lines):,} line{'s' * (len(lines) != 1)}"
        raise InputError(f"{file} has {has}, so {line}:{column} is outside it; choose another --at")
    width = len(lines[line - 1].removesuffix("\r"))
    if column > width + 1:
        raise InputError(
            f"line {line} of {file} ends at column {width + 1}, so {line}:{column} is outside it; choose another --at"
        )
    start = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    return text[:start], text[start:]


def print_offers(found: Sequence["Offer"], form: Form) -> None:
    """Print every offer: a line of JSON each, or the texts, with headings if any has several lines."""
    headed = any("\n" in offer.text for offer in found) and len(found) > 1
    for number, offer in enumerate(found, 1):
        if form.json:
            facts = {"text": offer.text, "source": offer.source, "path": str(offer.path) if offer.path else None}
            print(json.dumps(facts | {"probability": offer.probability, "withheld": offer.withheld}), flush=True)
            continue
        if headed:
            note(f"suggestion {number} of {len(found)}, from the {offer.source}")
        write(offer.text, form)
        end_line(offer.text, form)


def explain(found: Sequence["Offer"], n: int, threshold: float) -> None:
    """Print to standard error where each offer comes from, and why it would not be shown unasked."""
    rows = []
    for number, offer in enumerate(found, 1):
        where = f"{offer.source}, {offer.path}" if offer.path else offer.source
        verdict = offer.withheld and f"only on request: {offer.withheld}" or "shown automatically"
        if number > n:
            verdict = f"not printed: rank {number}" + (f"; {verdict}" if offer.withheld else "")
        first = offer.text.split("\n")[0]
        rows.append((f"{offer.probability:.2f}", printable(where), verdict, printable(first)))
    print(table(("PROBABILITY", "FROM", "EDITORS", "TEXT"), rows), file=sys.stderr)
    print(f"\nEditors show the first one automatically at {threshold:.2f} or more.", file=sys.stderr)
