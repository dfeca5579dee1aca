"""What to offer at the start: resuming unfinished pulls, or pulling a chat model that fits this machine."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chatapp.settings import offline
from chatapp.text.units import size

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel
    from model_store import Store

VERSION = 1
"""The version of the offer: an answer counts until this is raised."""
ROOM = 0.5
"""The share of the free disk space that an offered model may take."""
SMALLEST_FIRST = ("smollm2-360m-instruct", "qwen2.5-0.5b-instruct")
"""Chat models without gate or thinking that answer well enough."""
LAST = "smollm2-135m-instruct"
"""The model to offer if there is no room for those."""


@dataclass(frozen=True)
class Offer:
    """A pull to offer, and the words for it."""

    kind: Literal["chat", "unfinished"]
    names: tuple[str, ...]
    """The models to pull, in this order."""
    text: str
    """The text of the offer."""
    does: str
    """What accepting does, shown after the name of its key."""


def suggest(store: "Store", home: Path) -> Offer | None:
    """Offer to resume unfinished pulls, or else a chat model that fits; None if there is neither."""
    from chatapp.models.jobs import read_waiting

    left = read_waiting(home / "jobs.json")
    return suggest_unfinished(store, left) or suggest_chat_model(store, home / "offer.json")


def suggest_chat_model(store: "Store", path: Path) -> Offer | None:
    """Offer a chat model that fits; None if there is one already, none fits, offline, or answered in `path`."""
    if (
        offline.wanted()
        or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        or is_answered(path)
    ):
        return None
    from chatapp.models import catalogue

    this = catalogue.read_machine(store)
    return choose_chat_model(catalogue.list_models(store, this), this.disk_free)


def choose_chat_model(rows: "Sequence[ListedModel]", disk_free: int) -> Offer | None:
    """The smallest good chat model that fits; None if one is here or being pulled.

    The machine's current load is ignored: the same machine always gets the same offer.
    """
    if any(row.state != "absent" and row.kind == "chat" for row in rows):
        return None
    absent = {row.name: row for row in rows if row.state == "absent"}
    for name in (*SMALLEST_FIRST, LAST):
        if (row := absent.get(name)) and row.fits == "well" and 2 * row.size <= ROOM * disk_free:
            return Offer("chat", (name,), "Want to chat?", f"downloads {name} ({size(row.size)})")
    return None


def suggest_unfinished(store: "Store", left: Sequence[str]) -> Offer | None:
    """Offer to resume pulls, except those finished or being pulled by another process."""
    from model_store import StoreError
    from model_store.hub.catalog import refer
    from model_store.locks import working_on

    names = []
    for text in left:
        with suppress(StoreError):
            name = refer(text).name
            if name not in store.locations() and not working_on(store.location(name)):
                names.append(text)
    if not names or offline.wanted():
        return None
    what = f"The pull of {names[0]} was" if len(names) == 1 else f"{len(names)} pulls were"
    return Offer("unfinished", tuple(names), f"{what} not finished.", "continues")


def is_answered(path: Path) -> bool:
    """Whether the offer of a chat model was answered before."""
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):  # missing or damaged
        return int(json.loads(path.read_text("utf-8"))["answered"]) >= VERSION
    return False


def remember_answer(path: Path) -> None:
    """Save that the offer was answered, if possible."""
    from model_store import write_json

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"answered": VERSION})
