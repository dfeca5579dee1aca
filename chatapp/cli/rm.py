"""`chatapp rm`: delete models."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace
from model_store import StoreError

DETAILS = "Deletes a checkpoint only if it is in the store; your own checkpoint folders are never touched."


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("models", metavar="MODEL", nargs="+")


def run(given: Namespace) -> int:
    """Delete the models and print the space freed; a failure does not stop the others."""
    store, code = Workspace().open_store(), 0
    for name in given.models:
        try:
            location = store.find_removable(name)
            print(printable(f"{location.name}: {size(store.remove_from(location))} freed"))
        except StoreError as error:
            note(f"Error: {error}")
            code = 1
    return code
