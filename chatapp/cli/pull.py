"""`chatapp pull`: download a model and make it ready to run."""

import sys
from argparse import Namespace
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_placement, read_placement
from chatapp.cli.progress import note_wait, print_event, show_steps, show_transfer
from chatapp.models.facts import describe_plan, lay_out
from chatapp.settings import offline
from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.workspace import Workspace
from model_store import Progress, Store

if TYPE_CHECKING:
    from chatapp.placement.selection import PlacementOptions

DETAILS = """\
NAME is a name from the catalogue (`chatapp search` lists it) or a Hugging Face Hub repository,
ORGANISATION/NAME[@REVISION]. ORGANISATION/NAME:QUANTISATION, such as :Q4_K_M, pulls a GGUF file of it.
An interrupted pull continues where it stopped.
HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and the proxy variables work as usual.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be downloaded and whether it fits")
    parser.add_argument("--force", action="store_true", help="pull a model even if it does not fit this machine")
    parser.add_argument("--json", action="store_true", help="print the plan and progress as JSON Lines")
    add_placement(parser)


def run(given: Namespace) -> None:
    """Plan, download, lower and time a model."""
    from chatapp.placement.selection import check_place
    from model_store.hub import pull

    offline.require_network("pull")
    store, placement = Workspace().open_store(), read_placement(given)
    check_place(placement)  # before anything is fetched
    wait = partial(note_wait, as_json=given.json)
    plan = pull.plan(store.roots, given.name, precision=placement.precision, on_wait=wait)
    if given.json:
        print_event("plan", **plan.facts)
    else:
        told = indent(lay_out(describe_plan(plan.facts, plan.repository.page)), "  ")
        print(printable(f"{plan.model.name}\n{told}"), flush=True)
    if plan.problems and not given.force:
        advice = "without --force it would be refused" if given.dry_run else "to pull it anyway: --force"
        raise InputError(f"{plan.model.name} does not fit: {'; '.join(plan.problems)}; {advice}")
    if given.dry_run:
        return
    try:
        with show_transfer(as_json=given.json) as on_transfer:
            plan.fetch(on_transfer=on_transfer)
        with show_steps(plan.model.name, as_json=given.json) as on_progress:
            place = prepare(store, plan.model.name, placement, on_progress)
    except KeyboardInterrupt:
        print("The downloaded part is kept. To continue, run the same pull again.", file=sys.stderr)
        raise
    if given.json:
        print_event("ready", model=plan.model.name, folder=str(plan.model.folder), runs_on=place)
    else:
        print(printable(f"{plan.model.name} is ready, on {place}: chatapp run {plan.model.name}"))


def prepare(store: Store, name: str, placement: "PlacementOptions", on_progress: Progress | None) -> str:
    """Lower the model for the backend it will run on, timing all of them unless one was chosen; returns the place."""
    import backends
    from chatapp.placement import measuring, selection

    model = store.get(name)
    if placement.backend:
        chosen = selection.choose_on_backend(store, model, placement, placement.backend)
        store.lowered(model, chosen.backend, chosen.precision, on_progress)
        return str(chosen)
    found = measuring.measure_all(store, model, placement, on_progress=on_progress)
    ranking = selection.rank(found, placement.objective)
    if not ranking:
        failed = selection.explain_failures(store, model, found)
        raise backends.BackendError(f"{name} was pulled but cannot run here: {failed}")
    return str(ranking[0].placement)
