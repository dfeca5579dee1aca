"""`chatapp gc`: delete what no model needs."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json, warn
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import Workspace
from model_store.upkeep import garbage

DETAILS = """\
Deletes files that belong to no model, pulls interrupted more than a week ago, leftovers of killed processes, and
models lowered for other versions of their runtimes. Files that another process is using are kept.
"""


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Delete the files, printing each with the reason."""
    found = garbage.collect(Workspace().open_store(), dry_run=given.dry_run, warn=warn)
    if given.json:
        return print_json(found)
    for one in found:
        print(printable(f"{size(one.size):>8}  {one.path}: {one.why}"))
    freed = size(sum(one.size for one in found))
    print(f"{freed} would be freed" if given.dry_run else f"{freed} freed")
