"""`chatapp import`: add a model that is already on this machine to the store."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.cli.progress import show_steps
from chatapp.models.facts import Fact, describe_kind, describe_precision, gather_facts, lay_out
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace
from model_store import imports

DETAILS = """\
PATH is the folder of a checkpoint, a GGUF file, ollama:NAME[:TAG], lmstudio:PUBLISHER/REPOSITORY, or a repository
ORGANISATION/NAME in the Hugging Face cache. Linked files must stay where they are.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("source", metavar="PATH")
    parser.add_argument("--name", metavar="NAME", help="the model's name (default: that of the file or folder)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--link", action="store_true", help="link to the files (default)")
    how.add_argument("--copy", action="store_true", help="copy the files into the store")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be imported")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Import the model, unless only the plan is wanted, and print the plan."""
    store = Workspace().open_store()
    plan = imports.plan(store, given.source, name=given.name, copy=given.copy)
    model, done = plan.model, not given.dry_run
    if done:
        with show_steps(model.name) as on_progress:
            imports.carry_out(store, plan, on_progress)
    if given.json:
        told = {"imported": done, "kind": plan.kind, "source": str(plan.source), "copied": plan.copied}
        return print_json(told | {"free": plan.free, "model": gather_facts(model)})
    copied = f"{size(plan.copied)} of {size(plan.free)} free" if plan.copied else "nothing: it stays there"
    facts = [
        Fact("name", model.name),
        Fact("found", f"{plan.kind} {plan.source}", size(model.size)),
        *describe_kind(model),
        describe_precision(model),
        Fact("copied", copied),
    ]
    how = f"Imported: chatapp run {model.name}" if done else "Dry run: nothing was imported."
    print(printable(f"{lay_out(facts)}\n\n{how}"))
