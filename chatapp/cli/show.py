"""`chatapp show`: everything about one model."""

import json
from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.models.facts import describe_model, gather_facts, lay_out
from chatapp.text.printable import printable
from chatapp.workspace import Workspace
from model_store import StoredModel
from model_store.checkpoint.card import introduction


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> int:
    """Print what the store knows of the model."""
    print_model(Workspace().open_store().get(given.model), as_json=given.json)
    return 0


def print_model(model: StoredModel, *, as_json: bool) -> None:
    """Print everything about one model, with the beginning of its card where it has one."""
    if as_json:
        return print(json.dumps(gather_facts(model), indent=2, default=str))
    print(printable(lay_out(describe_model(model))))
    if text := introduction(model.folder):
        print(printable(f"\n{text}\n\nThe whole card: {model.folder / 'README.md'}"))
