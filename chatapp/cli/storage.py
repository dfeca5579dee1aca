"""`rm`, `cp`, `du`, `gc` and `cache`: what they do, and print."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict

from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.text.units import size, table
from model_store import Store
from model_store.upkeep import copies, garbage, runtime_caches
from model_store.upkeep import usage as disk_usage
from model_store.upkeep.runtime_caches import Cache


def remove(store: Store, given: Namespace) -> None:
    """Delete what was made for models, and what was pulled."""
    for name in given.models:
        print(printable(f"{name}: {size(store.remove(name))} freed"))


def copy(store: Store, given: Namespace) -> None:
    """Give a model a second name."""
    model = copies.copy(store, given.model, given.new)
    taken = next(one for one in disk_usage.usage(store) if one.name == model.name)
    alone = not taken.shared and bool(taken.own or model.variants)  # the disk knows no links
    how = f"and takes another {size(taken.own + taken.variants)}: this disk has no links" if alone else ""
    print(printable(f"{model.name} is {given.model}, {how or 'and shares its files'}"))


def usage(store: Store, given: Namespace) -> None:
    """What each model takes on the disk."""
    found, total = disk_usage.usage(store), disk_usage.total(store)
    if given.json:
        return print(json.dumps({"models": [asdict(one) for one in found], "total": total}, indent=2))
    columns = ("MODEL", "OWN", "SHARED", "LOWERED", "OF THAT CACHES")
    rows = [(one.name, *map(size, (one.own, one.shared, one.variants, one.caches))) for one in found]
    print(table(columns, rows))
    places = printable(" and ".join(map(str, store.roots)))
    print(f"\n{size(total)} in {places}; what is shared counts once")


def collect(store: Store, given: Namespace) -> None:
    """Delete what nobody needs."""
    found = garbage.collect(store, dry_run=given.dry_run, warn=warn)
    if given.json:
        return print(json.dumps([asdict(one) for one in found], indent=2, default=str))
    for one in found:
        print(printable(f"{size(one.size):>8}  {one.path}: {one.why}"))
    freed = size(sum(one.size for one in found))
    print(f"{freed} would be freed" if given.dry_run else f"{freed} freed")


def warn(reason: str) -> None:
    """Say what is wrong, and that the rest is looked after."""
    print(f"Warning: {printable(reason)}", file=sys.stderr)


def caches(store: Store, given: Namespace) -> None:
    """List what runtimes keep, or delete it."""
    if given.action == "list" and given.models:
        raise InputError(f"cache lists them all; to delete those of {given.models[0]}: chatapp cache clear ...")
    known = {"builtin", *store.names()}
    if unknown := [name for name in given.models if name not in known]:
        raise InputError(f"there is no model called {unknown[0]!r}; chatapp list shows those that are here")
    clear = given.action == "clear"
    found = runtime_caches.clear(store, given.models) if clear else runtime_caches.caches(store)
    if given.json:
        return print(json.dumps([asdict(one) for one in found], indent=2, default=str))
    if found:
        print(table(("MODEL", "VARIANT", "CACHE", "SIZE"), [row(one) for one in found]) + "\n")
    total, limit = size(sum(one.size for one in found)), size(runtime_caches.LIMIT)
    print(f"{total} deleted" if clear else f"{total}; above {limit} the oldest are deleted when a model is lowered")


def row(cache: Cache) -> Sequence[str]:
    """A line of the table."""
    return cache.model, cache.variant, cache.folder.name, size(cache.size)


COMMANDS = {"rm": remove, "cp": copy, "du": usage, "gc": collect, "cache": caches}
