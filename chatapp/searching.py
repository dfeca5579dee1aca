"""`search`: the models of the catalogue, and what the Hub has that runs here."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from chatapp import offline
from chatapp.terminal import printable
from chatapp.units import count, table
from model_store.catalog import catalog

if TYPE_CHECKING:
    from model_store.hub import Found


def hub_search(text: str) -> "list[Found]":
    """What the Hub has under this name; only this asks the network."""
    offline.require_network("search")
    from model_store import families, hub

    return hub.search(hub.site(), text, frozenset(families.names()))


def print_search(text: str | None, *, as_json: bool) -> None:
    """The models of the catalogue; with a text, those that match it, and what the Hub has."""
    known = [
        entry for entry in catalog().values() if not text or text.lower() in f"{entry.name} {entry.repository}".lower()
    ]
    found = hub_search(text) if text else []
    if as_json:
        return print(
            json.dumps({"catalog": [asdict(one) for one in known], "hub": [asdict(one) for one in found]}, indent=2)
        )
    rows = [
        (one.name, count(one.parameters * 1_000_000), licence(one.licence, one.gated), one.good_for) for one in known
    ]
    if rows:
        print(printable(table(("NAME", "PARAMETERS", "LICENCE", "GOOD FOR"), rows)))
    listed = {one.repository for one in catalog().values()}
    others = [
        (one.id, one.family, f"{one.downloads:,}", licence(one.licence, one.gated))
        for one in found
        if one.id not in listed
    ]
    if others:
        print(printable(("\n" if rows else "") + table(("ON THE HUB", "FAMILY", "DOWNLOADS", "LICENCE"), others)))
    if not rows and not others:
        print(f"nothing that runs here is called {printable(text or '')!r}", file=sys.stderr)


def licence(name: str, gated: bool) -> str:
    """A licence, and whether the publisher wants to be asked."""
    return f"{name}, gated" if gated else name
