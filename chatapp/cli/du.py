"""`chatapp du`: the disk space of each model."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.text.printable import printable
from chatapp.text.units import size, table
from chatapp.workspace import Workspace
from model_store.upkeep import usage

DETAILS = """\
OWN is the model's part of the checkpoint, SHARED the part that other models use too, LOWERED what was made for the
backends. A linked checkpoint takes no space in the store.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Print a line for each model, and the total."""
    store = Workspace().open_store()
    found, total = usage.usage(store), usage.total(store)
    if given.json:
        return print_json({"models": found, "total": total})
    rows = [(one.name, *map(size, (one.own, one.shared, one.variants, one.caches))) for one in found]
    print(table(("MODEL", "OWN", "SHARED", "LOWERED", "OF THAT CACHES"), rows))
    places = printable(" and ".join(map(str, store.roots)))
    print(f"\n{size(total)} in {places}; what is shared counts once")
