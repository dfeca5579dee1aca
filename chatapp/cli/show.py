"""`chatapp show`: everything about one model."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.models.facts import describe_model, gather_facts, lay_out
from chatapp.text.printable import printable
from chatapp.workspace import Workspace
from model_store.checkpoint.card import introduction


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Print everything about one model, and the beginning of its model card."""
    model = Workspace().open_store().get(given.model)
    if given.json:
        return print_json(gather_facts(model))
    print(printable(lay_out(describe_model(model))))
    if text := introduction(model.folder):
        print(printable(f"\n{text}\n\nThe whole card: {model.folder / 'README.md'}"))
