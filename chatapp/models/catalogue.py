"""The models in the store and those that can be pulled: size, memory, whether they fit, and speed."""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import backends
from chatapp.placement import record, selection
from chatapp.placement.record import Measurement
from chatapp.remote.address import Remote, join_model
from model_store import Store, StoredModel, StoreError, Variant, fit
from model_store.bandwidth import REACHED, speed
from model_store.disk import SPARE, amount, existing
from model_store.hub import manifest
from model_store.hub.catalog import Entry, catalog, name_of, spell
from model_store.hub.partial import count_arrived
from model_store.location import Location
from model_store.locks import working_on
from model_store.models import BUILTIN, usual_precision

RECOMMENDED = {
    "chat": ("qwen2.5-1.5b-instruct", "qwen2.5-0.5b-instruct", "smollm2-360m-instruct", "smollm2-135m-instruct"),
    "code": ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "tiny-starcoder"),
}
"""For each kind, recommended models of the catalogue, best first: the first that runs well here is shown."""
SLOWEST = 8.0
"""The least tokens per second of a recommended model: about reading speed."""

Fits = Literal["well", "tight", "no"]
State = Literal["here", "broken", "stopped", "elsewhere", "absent", "remote"]
"""In the store; there but unreadable; partly downloaded; being worked on by another process; not here; on a server."""
Badge = Literal["verified", "failed", "unverified"]

COMFORT = 0.6
"""The share of this machine's memory up to which a model runs well."""
CONVERSATION = 12_800
"""Approximate KV cache of a 4,096-token conversation: bytes per square root of the parameter count."""
CONVERSATIONS = {
    "deepseek_v2": 21_700,
    "deepseek_v3": 21_700,
    "glm4_moe_lite": 45_000,
    "minicpm3": 122_000,
    "phi3": 52_000,
    "qwen3": 25_000,
    "youtu": 72_000,
}
"""The same for families whose cache is much larger."""
PUBLISHED_BITS = {"gpt_oss": 5.3} | dict.fromkeys(("biogpt", "gpt2", "gpt_bigcode", "gpt_neo", "t5"), 32)
"""Bits per published weight, for families that do not publish 16."""


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that decide whether a model fits."""

    memory: int
    disk_free: int
    bandwidth: float
    """Memory bandwidth in bytes per second."""
    backends: int
    """How many backends a model is lowered for."""
    versions: Mapping[str, object]
    """The versions that measurements depend on."""
    share: float = REACHED
    """The share of the bandwidth that decoding reaches."""


@dataclass(frozen=True)
class ListedModel:
    """A model as a row of a list; sizes in bytes."""

    name: str
    state: State
    kind: str
    """`chat` or `base` for a model in the store, otherwise the catalogue's kind, or `hub`."""
    source: str
    """What to pull: a name of the catalogue, or a repository."""
    parameters: int = 0
    precision: str = ""
    size: int = 0
    """On disk, or to download."""
    memory: int = 0
    """To run it."""
    fits: Fits = "well"
    problem: str = ""
    """Why it does not fit well, with numbers."""
    tokens_per_second: float = 0.0
    measured: bool = False
    """Whether memory and speed were measured here; otherwise they are estimates."""
    place: str = ""
    """Backend and device."""
    badge: Badge = "unverified"
    against: str = ""
    """The reference it was verified against."""
    licence: str = ""
    gated: bool = False
    recommended: bool = False
    good_for: str = ""
    share: float | None = None
    """The downloaded share, if it is incomplete."""
    note: str = ""
    """What is wrong with it, or which process works on it."""


def read_machine(store: Store) -> Machine:
    """This machine; the first call ever takes a quarter of a second, to time the memory."""
    known = speed(store.root)
    return Machine(
        memory=fit.memory(),
        disk_free=shutil.disk_usage(existing(store.root)).free,
        bandwidth=known.bandwidth,
        backends=sum(bool(backends.get(name).devices()) for name in backends.NAMES),
        versions=record.conditions(),
        share=known.share,
    )


def list_models(store: Store, this: Machine) -> list[ListedModel]:
    """The models in the store, those partly downloaded, and the rest of the catalogue.

    Of each kind, the best one that runs well here is marked as recommended.
    """
    here = [describe_stored(store, location, this) for location in store.every_location().values()]
    names = {row.name for row in here}
    parts = [row for row in list_unfinished(store, this) if row.name not in names]
    names |= {row.name for row in parts}
    rest = [describe_offered(entry, this) for entry in catalog().values() if entry.name not in names]
    rows = [*here, *parts, *rest]
    able = {row.name for row in rows if row.fits == "well" and row.tokens_per_second >= SLOWEST}
    best = {next((name for name in ranking if name in able), "") for ranking in RECOMMENDED.values()}
    return [replace(row, recommended=row.name in best) for row in rows]


def describe_stored(store: Store, location: Location, this: Machine) -> ListedModel:
    """The row of a model in the store; its state is `broken` if it cannot be read."""
    name = location.name
    try:
        model = store.get(name) if name == BUILTIN else store.read(location)
        was_pulled = model.folder.parent == location.checkpoint.parent
        facts = manifest.read_source(model.folder) if was_pulled else {}
    except StoreError as error:
        return ListedModel(name, "broken", "base", name, note=str(error))
    entry = catalog().get(name)
    found = read_measurements(location.folder, model, this)
    best = next(iter(selection.rank(found, "chat")), None)
    variant, device = choose_variant(model, best)
    verdict = variant.verdicts.get(device) if variant else None
    precision = best.placement.precision if best else variant.precision if variant else model.precision
    memory = (
        best.peak_memory if best and best.peak_memory else estimate_memory(model.family, model.parameters, precision)
    )
    fits, problem = check_fit(this, memory, disk=0)
    return ListedModel(
        name,
        "here",
        "chat" if model.chats else "base",
        str(facts.get("repository") or name),
        parameters=model.parameters,
        precision=precision,
        size=model.size + sum(one.size for one in model.variants),
        memory=memory,
        fits=fits,
        problem=problem,
        tokens_per_second=1 / best.p50 if best and best.p50 else estimate_speed(this, model.parameters, precision),
        measured=bool(best and best.p50),
        place=f"{variant.backend} · {device}" if variant else f"{best.placement.backend} · {device}" if best else "",
        badge="unverified" if verdict is None else "verified" if verdict["passed"] else "failed",
        against=str(verdict.get("reference", "")) if verdict else "",
        licence=str(facts.get("licence") or (entry.licence if entry else "")),
        good_for=entry.good_for if entry else "completing code and filling gaps" if name == BUILTIN else "",
    )


def read_measurements(folder: Path, model: StoredModel, this: Machine) -> list[Measurement]:
    """This machine's measurements, except of placements that have since failed verification."""
    found = record.read(folder, this.versions)
    wrong = {
        (one.backend, one.precision, device) for one in model.variants for device in one.verdicts if one.failed(device)
    }
    return [one for one in found if (one.placement.backend, one.placement.precision, one.placement.device) not in wrong]


def choose_variant(model: StoredModel, best: Measurement | None) -> tuple[Variant | None, str]:
    """The variant that will run, as far as that is known, and its device."""
    if best:
        place = best.placement
        same = (one for one in model.variants if (one.backend, one.precision) == (place.backend, place.precision))
        return next(same, None), place.device
    of_choice = sorted(model.variants, key=lambda one: (one.precision != model.precision, not one.verdicts))
    first = of_choice[0] if of_choice else None
    return first, next(iter(first.verdicts), "cpu") if first else ""


def list_unfinished(store: Store, this: Machine) -> Iterator[ListedModel]:
    """Rows of the partly downloaded models, including those that another process is downloading."""
    for root in store.roots:
        for folder in manifest.folders(root, unfinished=True):
            if folder.name.startswith(".") and folder.suffix == ".partial":
                yield describe_unfinished(root, folder, this)


def describe_unfinished(root: Path, folder: Path, this: Machine) -> ListedModel:
    """The row of a partly downloaded model."""
    name = folder.name[1:].removesuffix(".partial")
    entry = catalog().get(name)
    parameters = entry.parameters * 1_000_000 if entry else 0
    try:
        facts, files = manifest.read_source(folder), manifest.read_files(folder)
    except StoreError as error:
        return ListedModel(name, "broken", entry.kind if entry else "hub", name, parameters=parameters, note=str(error))
    source = manifest.read_reference(folder)
    size = sum(file.size for file in files)
    done = sum(count_arrived(folder, file) for file in files)
    share = done / size if size else 0.0
    row = describe_offered(entry, this) if entry else ListedModel(name, "absent", "hub", source)
    row = replace(row, state="stopped", size=size, share=share, licence=str(facts.get("licence") or row.licence))
    if not (owner := working_on(Location(root, name))):
        return row
    step = f", {owner.step} {owner.share:.0%}" if owner.step else ""
    return replace(row, state="elsewhere", note=f"process {owner.pid} on {owner.host} is {owner.what}{step}")


def describe_offered(entry: Entry, this: Machine) -> ListedModel:
    """The row of a catalogue model that is not here, with estimates from its parameter count."""
    parameters = entry.parameters * 1_000_000
    precision = usual_precision(parameters)
    size = int(parameters * PUBLISHED_BITS.get(entry.family, 16) / 8)
    memory = fit.memory_needed(fit.lowered_size(parameters, precision), entry.cache * 1_000_000)
    disk = size + this.backends * fit.lowered_size(parameters, precision)
    fits, problem = check_fit(this, memory, disk)
    return ListedModel(
        entry.name,
        "absent",
        entry.kind,
        entry.name,
        parameters=parameters,
        precision=precision,
        size=size,
        memory=memory,
        fits=fits,
        problem=problem,
        tokens_per_second=estimate_speed(this, entry.active * 1_000_000 or parameters, precision),
        licence=entry.licence,
        gated=entry.gated,
        good_for=entry.good_for,
    )


def check_fit(this: Machine, memory: int, disk: int) -> tuple[Fits, str]:
    """Whether a model that needs this many bytes fits, and if not well, why."""
    if disk + SPARE > this.disk_free and disk:
        free = f"{amount(this.disk_free)} are free, of which {amount(SPARE)} must stay free"
        return "no", f"it needs {amount(disk)} of disk space, and {free}"
    if memory > this.memory:
        return "no", f"it needs {amount(memory)} of memory, and this machine has {amount(this.memory)}"
    if memory > COMFORT * this.memory:
        return "tight", f"it needs {amount(memory)} of this machine's {amount(this.memory)} of memory"
    return "well", ""


def estimate_memory(family: str, parameters: int, precision: str) -> int:
    """Estimate the memory to run a model from its family and size, within about a third."""
    conversation = round(CONVERSATIONS.get(family, CONVERSATION) * math.sqrt(parameters))
    return fit.memory_needed(fit.lowered_size(parameters, precision), conversation)


def estimate_speed(this: Machine, parameters: int, precision: str) -> float:
    """Estimate the tokens per second that this machine's memory bandwidth allows."""
    size = fit.lowered_size(parameters, precision)
    return this.share * this.bandwidth / size if size else 0.0


def describe_remotes(servers: Sequence[Remote]) -> list[ListedModel]:
    """Rows of the models that the saved servers had when they were added; no server is asked."""
    return [
        ListedModel(
            join_model(model, server.name),
            "remote",
            "chat",
            server.name,
            place=server.host,
            note=f"on {server.name}: text {'stays on this machine' if server.is_here else f'goes to {server.host}'}",
        )
        for server in servers
        for model in server.models or ("",)
    ]


def describe_found(facts: Mapping[str, Any]) -> list[ListedModel]:  # Any: JSON, as `chatapp search --json` prints it
    """Rows of the models found on the Hub, without those of the catalogue."""
    listed = {entry.repository for entry in catalog().values()}
    rows = []
    for one in facts["hub"]:
        kinds = list(one.get("quantizations", ()))
        source = spell(one["id"], kinds[0] if len(kinds) == 1 else "", "")
        told = ", ".join((one["family"], f"{one['downloads']:,} downloads", *kinds))
        found = ListedModel(name_of(source), "absent", "hub", source, licence=one["licence"], gated=bool(one["gated"]))
        rows += [replace(found, good_for=told)] * (one["id"] not in listed)
    return rows
