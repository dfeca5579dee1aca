"""`chatapp show`: everything about one model."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.models.facts import describe_model, gather_facts, lay_out
from chatapp.settings import presets
from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.workspace import Workspace
from model_store.checkpoint.card import introduction
from model_store.tokenizers.chat_template import chat_template


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--template", action="store_true", help="print its chat template")


def run(given: Namespace) -> None:
    """Print everything about one model, and the beginning of its model card."""
    workspace = Workspace()
    model = workspace.open_store().get(given.model)
    if given.template:
        if not (template := chat_template(model.folder)):
            raise InputError(f"{model.name} has no chat template: it continues text")
        return print(printable(template))
    if given.json:
        return print_json(gather_facts(model))
    own = presets.read_own(workspace.home / "presets.toml").get(model.name)
    print(printable(lay_out(describe_model(model, own.options if own else None))))
    if text := introduction(model.folder):
        print(printable(f"\n{text}\n\nThe whole card: {model.folder / 'README.md'}"))
