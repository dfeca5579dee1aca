"""`chatapp search`: models of the catalogue, and models on the Hub that run here."""

import sys
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from backends.suggest import squeeze
from chatapp.cli.arguments import Parser
from chatapp.cli.printing import print_json
from chatapp.cli.progress import note_wait
from chatapp.settings import offline
from chatapp.text.printable import printable
from chatapp.text.units import count, size, table
from model_store.errors import HubUnreachable
from model_store.hub.catalog import REPOSITORY, catalog, spell

if TYPE_CHECKING:
    from model_store.hub.catalog import Entry
    from model_store.hub.hub import Found

DETAILS = """\
Without TEXT, lists the catalogue, offline. With TEXT, also searches the Hub for models that run here.
If TEXT includes gguf, lists GGUF files, by their quantisations.
"""
MILLION = 1_000_000


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("text", metavar="TEXT", nargs="*")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> None:
    """Print the catalogue; with a text, its matches there and on the Hub."""
    text = " ".join(given.text)
    known = [entry for entry in catalog().values() if fits(entry, text)]
    found, unreached = [], ""
    try:
        found = hub_search(text) if text else []
    except HubUnreachable as error:
        if not known:
            raise
        unreached = f"cannot search the Hub, showing the catalogue only: {error}"
    if given.json:
        entries = [asdict(one) | {"memory": memory(one.parameters * MILLION, one.cache * MILLION)} for one in known]
        hub = [asdict(one) | {"memory": memory(one.parameters)} for one in found]
        return print_json({"catalog": entries, "hub": hub, "unreached": unreached or None})
    listed = {one.repository for one in catalog().values()}
    tables = print_tables(known, [one for one in found if one.id not in listed])
    if unreached:
        print(printable(unreached), file=sys.stderr)
    if not tables:
        print(f"no model that runs here matches {printable(text)!r}", file=sys.stderr)


def fits(entry: "Entry", text: str) -> bool:
    """Whether the words of a text are in what the catalogue tells of a model, however they are joined: llama3.2."""
    told = squeeze(f"{entry.name} {entry.repository} {entry.good_for}".lower())
    return all(squeeze(word) in told for word in text.lower().split())


def hub_search(text: str) -> "list[Found]":
    """Search the Hub; the only function here that uses the network."""
    from model_store import families
    from model_store.gguf.architectures import ARCHITECTURES
    from model_store.hub import hub

    offline.require_network("search")
    repository = REPOSITORY.fullmatch(text)
    name, kind = (repository[1], repository[2] or "") if repository else (text, "")
    if kind or "gguf" in text.lower():
        return hub.search_gguf(hub.site(), name, kind.upper(), frozenset(ARCHITECTURES), on_wait=note_wait)
    return hub.search(hub.site(), text, frozenset(families.names()), on_wait=note_wait)


def print_tables(known: "list[Entry]", found: "list[Found]") -> int:
    """Print the models of the catalogue and of the Hub; returns how many tables were printed."""
    rows = [
        (one.name, *parameters_and_memory(one.parameters * MILLION, one.cache * MILLION),
         one.licence + ", gated" * one.gated, one.good_for)
        for one in known
    ]  # fmt: skip
    others = [
        (one.id, one.family, *parameters_and_memory(one.parameters), f"{one.downloads:,}",
         one.licence + ", gated" * one.gated)
        for one in found
    ]  # fmt: skip
    tables = [table(("NAME", "PARAMETERS", "MEMORY", "LICENCE", "GOOD FOR"), rows)] if rows else []
    tables += (
        [table(("ON THE HUB", "FAMILY", "PARAMETERS", "MEMORY", "DOWNLOADS", "LICENCE"), others)] if others else []
    )
    from model_store.hub.file_selection import prefer

    if files := [(one.id, ", ".join(one.quantizations)) for one in found if one.quantizations]:
        pull = f"To pull one: chatapp pull {spell(found[0].id, prefer(found[0].quantizations), '')}"
        tables += [table(("GGUF FILES OF", "QUANTISATIONS"), files), pull]
    if tables:
        print(printable("\n\n".join(tables)))
    return len(tables)


def memory(parameters: int, cache: int = 0) -> int | None:
    """Bytes of memory to run a model of this size at its usual precision; None if its size is unknown."""
    from model_store import fit
    from model_store.models import usual_precision

    weights = fit.lowered_size(parameters, usual_precision(parameters))
    return fit.memory_needed(weights, cache) if parameters else None


def parameters_and_memory(parameters: int, cache: int = 0) -> tuple[str, str]:
    """Both as text; without a known cache size, the memory is a lower bound."""
    needed = memory(parameters, cache)
    return ("", "") if needed is None else (count(parameters), size(needed) + ("" if cache else " or more"))
