"""`chatapp rm`: delete what was made for a model, and what was pulled."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace

DETAILS = "A checkpoint that was pulled is deleted too; a checkpoint folder of your own is never touched."


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_details(DETAILS)
    parser.add_argument("models", metavar="MODEL", nargs="+")


def run(given: Namespace) -> int:
    """Delete the models, and print what that freed."""
    store = Workspace().open_store()
    for name in given.models:
        location = store.find_removable(name)
        print(printable(f"{location.name}: {size(store.remove_from(location))} freed"))
    return 0
