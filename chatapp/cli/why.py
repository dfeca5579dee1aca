"""`chatapp why`: why a model runs where it does."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_placement, read_placement
from chatapp.cli.printing import print_json
from chatapp.cli.progress import show_steps
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size, table
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.placement.record import Measurement

DETAILS = """\
On first use, a model is measured and checked on every backend and device, and then runs on the best one.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--again", action="store_true", help="measure again")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_placement(parser)


def run(given: Namespace) -> int:
    """Print the measurements, measuring first what is missing; returns 1 if nothing works."""
    from chatapp.placement import measuring, selection

    store = Workspace().open_store()
    placement = replace(read_placement(given), backend=given.backend)  # compare also with the backend in the settings
    model = store.get(given.model)
    with store.adopting(), show_steps(model.name) as on_progress:
        found = measuring.measure_all(store, model, placement, anew=given.again, on_progress=on_progress)
    ranking = selection.rank(found, placement.objective)
    rejected = [one for one in found if one.failure]
    if given.json:
        about = {"model": model.name, "objective": placement.objective}
        print_json(about | {"ranking": ranking, "rejected": rejected})
    else:
        if ranking:
            print_ranking(model.name, placement.objective, ranking)
        for one in rejected:
            print(printable(f"\n{one.placement} is not chosen: {one.failure}"))
    return 0 if ranking else 1


def print_ranking(name: str, objective: str, ranking: "Sequence[Measurement]") -> None:
    """Print the measurements of each placement, the chosen one first."""
    from chatapp.placement.record import MANY

    rows = [
        (
            one.placement.backend,
            one.placement.device,
            one.placement.precision,
            *(milliseconds(seconds) for _, seconds in one.first_token),
            *map(milliseconds, (one.p50, one.p95, one.step_of_many, one.load, one.lowering)),
            size(one.peak_memory),
            one.verdict or "-",
        )
        for one in ranking
    ]
    lengths = [f"{length} TOKENS" for length, _ in ranking[0].first_token]
    heads = ("BACKEND", "DEVICE", "PRECISION", *lengths, "P50", "P95", f"{MANY} AT ONCE", "LOAD", "LOWERING", "MEMORY")
    what = f"time to the first token, of a step, of {MANY} at once, to load"
    print(f"{printable(name)} for {objective}, best first: {what}\n\n{table((*heads, 'CHECK'), rows)}")
