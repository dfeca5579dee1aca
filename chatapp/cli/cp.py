"""`chatapp cp`: give a model a second name."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace
from model_store.upkeep import copies, usage

DETAILS = """\
Both names share the files, so that the copy takes no room where the disk knows links; what happens to one leaves the
other as it is.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("new", metavar="NEW")


def run(given: Namespace) -> None:
    """Copy the model and print the space it takes."""
    store = Workspace().open_store()
    model = copies.copy(store, given.model, given.new)
    taken = next(one for one in usage.usage(store) if one.name == model.name)
    alone = not taken.shared and bool(taken.own or model.variants)  # the file system has no hard links
    how = f"and takes another {size(taken.own + taken.variants)}: this disk has no links" if alone else ""
    print(printable(f"{model.name} is {given.model}, {how or 'and shares its files'}"))
