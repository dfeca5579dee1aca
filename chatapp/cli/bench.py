"""`chatapp bench`: time a model."""

import argparse
from argparse import Namespace
from functools import partial
from pathlib import Path

from backends import Placement
from chatapp.cli.arguments import Parser, add_placement, parse_number, read_placement
from chatapp.cli.printing import note, warn
from chatapp.cli.progress import show_steps
from chatapp.text.errors import UsageError
from chatapp.workspace import Workspace


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tokens", metavar="N", type=parse_number, default=64, help="decode steps timed (default: 64)")
    which.add_argument("--load", action="store_true", help="time only the loading")
    parser.add_argument("--all-backends", action="store_true", help="time each backend, in its own process")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV, one row per figure")
    parser.add_argument("--steps", action="store_true", help=argparse.SUPPRESS)  # for jobs.py
    add_placement(parser)


def run(given: Namespace) -> None:
    """Time the model and print the figures."""
    from chatapp.evaluation import bench
    from chatapp.placement import selection
    from chatapp.placement.opening import open_engine

    tokens = 0 if given.load else given.tokens
    if given.all_backends:
        if given.backend or given.device:
            raise UsageError("--all-backends times every backend and device; leave out --backend and --device")
        rest = ["--load"] if given.load else ["--tokens", str(tokens)]
        rest += ["--precision", given.precision] if given.precision else []
        figures = bench.measure_each(given.model, selection.list_devices(), rest, warn=note)
    else:
        store = Workspace().open_store()

        def folder_of(place: Placement) -> Path:
            return store.lowered(store.get(given.model), place.backend, place.precision).folder

        with store.adopting(), show_steps(given.model, as_json=given.steps) as on_progress:
            open_one = partial(open_engine, store, given.model, read_placement(given), on_fallback=warn)
            figures = [bench.measure(partial(open_one, on_progress=on_progress), folder_of, tokens, on_progress)]
    print(bench.format_figures(figures, "json" if given.json else "csv" if given.csv else "text"))
