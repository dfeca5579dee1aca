"""`chatapp cache`: the compiled models that runtimes keep for a quicker start."""

from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.text.errors import InputError, UsageError
from chatapp.text.units import size, table
from chatapp.workspace import Workspace
from model_store import runtime_caches

DETAILS = "Runtimes cache compiled models so that they load faster. What you clear is compiled again when needed."


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("list", "clear"), nargs="?", default="list", metavar="list|clear")
    parser.add_argument("models", metavar="MODEL", nargs="*", help="with clear: only these models")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """List the caches, or delete them."""
    if given.action == "list" and given.models:
        raise UsageError(f"cache list takes no MODEL; to clear a model's caches: chatapp cache clear {given.models[0]}")
    known = Workspace().open_store().every_location()
    if unknown := [name for name in given.models if name not in known]:
        raise InputError(f"no model {unknown[0]!r}; to see your models: chatapp list")
    clear = given.action == "clear"
    found = runtime_caches.caches(known[name] for name in given.models or known)
    if clear:
        found = runtime_caches.delete(found)
    if given.json:
        return print_json(found)
    rows = [(one.model, one.variant, one.folder.name, size(one.size)) for one in found]
    if rows:
        print(table(("MODEL", "VARIANT", "CACHE", "SIZE"), rows) + "\n")
    total, limit = size(sum(one.size for one in found)), size(runtime_caches.LIMIT)
    print(f"{total} deleted" if clear else f"{total}; above {limit} the oldest are deleted when a model is lowered")
