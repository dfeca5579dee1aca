"""`chatapp cp`: give a model a second name."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace
from model_store.upkeep import copies, usage

DETAILS = """\
The names share the model's files where the disk supports links, so the copy takes no space. Deleting one leaves the
other unchanged.
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
