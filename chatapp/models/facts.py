"""The facts about a model as a table of label, value and reason, for every front."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatapp.text.units import count, size

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel, Machine
    from chatapp.placement.record import Measurement
    from model_store import Store, StoredModel, Variant

FITTING = {"well": "well", "tight": "tightly", "no": "not"}


@dataclass(frozen=True)
class Fact:
    """A fact about a model; without a label it continues the one before."""

    label: str
    value: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.value} ({self.why})" if self.why else self.value


def lay_out(facts: Iterable[Fact]) -> str:
    """The facts as lines, with aligned values."""
    facts = list(facts)
    width = max(len(fact.label) for fact in facts)
    return "\n".join(f"{fact.label:{width}}  {fact}" for fact in facts)


# A model in the store


def describe_kind(model: StoredModel) -> list[Fact]:
    """Family, size, context length and kind of a model."""
    return [
        Fact("family", model.family),
        Fact("parameters", f"{model.parameters:,}"),
        Fact("context", f"{model.context_length:,} tokens"),
        Fact("kind", "answers messages" if model.chats else "continues text (base model)"),
    ]


def describe_precision(model: StoredModel) -> Fact:
    """The precision a model runs in, and why."""
    return Fact("precision", model.precision, model.precision_reason)


def describe_model(model: StoredModel, own: Mapping[str, object] | None = None) -> Iterator[Fact]:
    """All facts of a model in the store: kind, origin and variants; `own` holds the options of its preset."""
    from model_store.checkpoint.links import origin
    from model_store.hub.manifest import read_source

    yield Fact("name", model.name)
    yield from describe_kind(model)
    yield Fact("sampling", describe_sampling(model.folder))
    if own:
        yield Fact("your preset", list_options(own))
    yield describe_precision(model)
    yield Fact("checkpoint", str(origin(model.folder)), size(model.size))
    if pulled := read_source(model.folder):
        yield Fact("from", f"{pulled.get('endpoint')}/{pulled.get('repository')} at {pulled.get('commit')}")
        yield Fact("licence", str(pulled.get("licence")))
    for variant in model.variants:
        yield from describe_variant(model, variant)


def gather_facts(model: StoredModel) -> dict[str, object]:
    """The facts of a model in the store as JSON."""
    from model_store import StoreError
    from model_store.hub.manifest import read_source

    reasons = {"precision": model.precision, "precision_reason": model.precision_reason}
    try:
        came_from = read_source(model.folder)
    except StoreError:  # an unreadable manifest is reported elsewhere
        came_from = {}
    return asdict(model) | reasons | {"source": came_from}


def describe_sampling(folder: Path) -> str:
    """The options that the publisher recommends, where they differ from the defaults."""
    from chatapp.generation import Options
    from chatapp.generation.options import published_options

    usual, published = asdict(Options()), asdict(published_options(folder))
    others = {name: value for name, value in published.items() if value != usual[name]}
    return list_options(others) or "chatapp's defaults"


def list_options(options: Mapping[str, object]) -> str:
    """Options and their values, in a line."""
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())


def describe_variant(model: StoredModel, variant: Variant) -> Iterator[Fact]:
    """The facts of a variant: location, size, origin, and verification."""
    import backends
    from model_store.checkpoint.links import origin

    held, how = "the export itself", "an export has no reference to compare its logits with"
    if not model.export:
        held = f"{size(variant.size)}, {variant.size * 8 / model.parameters:.1f} bits a weight"
        if carrier := backends.get(variant.backend).carrier(variant.precision):
            held += f"; weights exactly so, carried by {carrier}"
        how = f"chatapp verify {model.name} --backend {variant.backend} --precision {variant.precision} does it"
    where = origin(model.folder) if model.export else variant.folder  # an export's folder only holds its path
    yield Fact(f"{variant.backend} {variant.precision}", str(where), held)
    if made := variant.made:
        day = datetime.fromtimestamp(float(made.get("time", 0)), UTC).date()
        yield Fact("", f"by {made.get('by')}, {day}, for {variant.signature}; {made.get('digest')}")
    for device, verdict in variant.verdicts.items():
        yield from (Fact("", line) for line in describe_verdict(device, verdict))
    if not variant.verdicts:
        yield Fact("", f"not verified; {how}")


def describe_verdict(device: str, verdict: Mapping[str, Any]) -> list[str]:  # Any: JSON of chatapp.evaluation.verify
    """The verdict for a device in lines: the largest differences from the original's logits, and failures."""
    from chatapp.evaluation.verify import ORIGINAL, describe_scope

    original = [one for one in verdict.get("comparisons", []) if one.get("against") == ORIGINAL]
    figures = [
        f"{words} {max(values):.2g}"
        for name, words in (("max_error", "max |Δ|"), ("mean_kl", "mean KL"))
        if (values := [one[name] for one in original if one.get(name) is not None])
    ]
    agreement = [one["top1"] for one in original if one.get("top1") is not None]
    figures += [f"top-1 {min(agreement):.1%}"] if agreement else []
    line = tell_verdict(device, verdict) + (f": {', '.join(figures)}" if figures else "")
    against = f"against {describe_scope(verdict.get('reference', ''))}"
    return [line, *(f"  {what}" for what in (against, *verdict.get("failures", []), *verdict.get("notes", [])))]


def describe_check(variant: Variant) -> Iterator[Fact]:
    """A variant's verification as facts, one per device."""
    from chatapp.evaluation.verify import describe_scope

    where = f"{variant.backend} {variant.precision}"
    for device, verdict in variant.verdicts.items():
        against = describe_scope(str(verdict.get("reference", "")))
        line = f"{tell_verdict(f'{where} {device}', verdict)}, against {against}"
        yield Fact("check", "; ".join([line, *verdict.get("failures", ())]))
    if not variant.verdicts:
        yield Fact("check", f"{where} is not verified yet")


def tell_verdict(where: str, verdict: Mapping[str, Any]) -> str:  # Any: as above
    """Whether verification passed, where and when."""
    return f"{'verified' if verdict['passed'] else 'FAILED'} on {where}, {str(verdict.get('date', ''))[:10]}"


# A model of the catalogue


def mark_estimate(model: ListedModel, text: str) -> str:
    """A figure, marked with ~ if it was not measured."""
    return text if model.measured else f"~{text}"


def format_speed(model: ListedModel) -> str:
    """Tokens per second, rounded to fit a column."""
    value = model.tokens_per_second
    text = f"{value / 1000:.0f}k" if value >= 9999.5 else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    return mark_estimate(model, text) if value else ""


def describe_needs(model: ListedModel) -> Iterator[Fact]:
    """Size, memory, speed, and whether the logits were verified."""
    if not model.parameters:
        return
    there = "on disk" if model.state == "here" else "to download"
    amount = f"about {size(model.size)}" if model.state == "absent" else size(model.size)
    yield Fact("size", f"{count(model.parameters)} parameters at {model.precision}, {amount} {there}")
    yield Fact("memory", f"{mark_estimate(model, size(model.memory))} to run: fits {FITTING[model.fits]}")
    where = f" on {model.place}" if model.place else ""
    how = "measured here" if model.measured else "estimated from memory bandwidth"
    yield Fact("speed", f"{format_speed(model)} tokens/s{where}, {how}")
    if model.state == "here":
        yield Fact("logits", f"{model.badge}{f' against {model.against}' if model.against else ''}")


def describe_use(model: ListedModel) -> Iterator[Fact]:
    """What a model is good for, its licence, and where it comes from."""
    from model_store.hub.catalog import catalog

    if model.good_for:
        yield Fact("good for", model.good_for)
    if model.problem:
        yield Fact("fits", model.fits, model.problem)
    if model.licence or model.gated:
        gated = ", gated: request access from its publisher first" if model.gated else ""
        yield Fact("licence", f"{model.licence}{gated}")
    if model.state == "remote":
        yield Fact("server", f"{model.source}, {model.place}", model.note)
    elif model.source != model.name or model.state == "absent":
        entry = catalog().get(model.name)
        yield Fact("repository", entry.repository if entry else model.source)


# All about one model


@dataclass(frozen=True)
class Details:
    """Everything shown about one model."""

    facts: tuple[Fact, ...]
    placements: tuple[Measurement, ...] = ()
    """The measured placements, best first, then the rejected ones."""
    card: str = ""
    """The introduction of its model card."""


def read_details(store: Store, listed: ListedModel, this: Machine) -> Details:
    """Read the details of a listed model."""
    from chatapp.models.catalogue import read_measurements
    from chatapp.placement import selection
    from model_store import StoreError
    from model_store.checkpoint.card import introduction
    from model_store.checkpoint.links import origin
    from model_store.hub import manifest

    use = tuple(describe_use(listed))
    if listed.state != "here":
        return Details(use)
    try:
        model = store.get(listed.name)
    except StoreError as error:
        return Details((*use, Fact("problem", str(error))))
    source = manifest.read_source(model.folder) if listed.name != "builtin" else {}
    found = read_measurements(store.folder(listed.name), model, this)
    ranking = selection.rank(found, "chat")
    own = [
        Fact("family", f"{model.family}, {model.context_length:,} tokens of context"),
        describe_precision(model),
        Fact("checkpoint", str(origin(model.folder))),
    ]
    if source:
        page = f"{source['endpoint']}/{source['repository']}"
        own.append(Fact("from", f"{page} at {str(source['commit'])[:12]}"))
    own += [fact for variant in model.variants for fact in describe_check(variant)]
    rejected = [one for one in found if one not in ranking]
    return Details((*use, *own), (*ranking, *rejected), introduction(model.folder))


def count_freed(store: Store, listed: ListedModel) -> int:
    """The bytes that removing a model frees, without files shared with other models."""
    from model_store.disk import freed_by
    from model_store.locks import BLOBS

    location = store.location(listed.name)
    folders = (location.folder, location.checkpoint, location.partial)
    return freed_by(*(folder for folder in folders if folder.is_dir()), kept=location.root / BLOBS)


# A model to be pulled


def describe_plan(plan: Mapping[str, Any], source: str, files: int | None = None) -> list[Fact]:  # Any: parsed JSON
    """The facts of a pull from the JSON of `chatapp pull`; `files` limits how many are named, largest first."""
    every = sorted(plan["files"], key=lambda file: -int(file["size"]))
    shown = ", ".join(f"{file['name']} ({size(file['size'])})" for file in every[:files])
    more = f" and {len(every) - files} smaller" if files and len(every) > files else ""
    there = f", {size(plan['there'])} of them here already" if plan["there"] else ""
    kind = f"exported for {plan['export']}" if plan["export"] else f"{count(plan['parameters'])} parameters"
    speed = f"{float(format(plan['tokens_per_second'], '.2g')):,.0f}"
    return [
        Fact("from", f"{source} at {plan['commit'][:12]}"),
        Fact("licence", plan["licence"]),
        Fact("files", f"{size(plan['size'])}{there}: {shown}{more}"),
        Fact("model", f"{plan['family']}, {kind}"),
        Fact("precision", plan["precision"], plan["precision_reason"]),
        Fact("disk", f"{size(plan['disk_needed'])} needed, {size(plan['disk_free'])} free"),
        Fact("memory", f"{size(plan['memory_needed'])} needed, {size(plan['memory'])} here"),
        Fact("speed", f"about {speed} tokens/s{'' if files else ', estimated from memory bandwidth'}"),
    ]
