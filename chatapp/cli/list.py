"""What is here: models, devices and versions, as tables or as JSON."""

import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import backends
from chatapp import __version__
from chatapp.evaluation.verify import ORIGINAL, telling
from chatapp.generation import Options
from chatapp.generation.published_options import published_options
from chatapp.placement.record import Measurement
from chatapp.text.printable import printable
from chatapp.text.units import count, milliseconds, size, table
from model_store import Store, StoredModel, StoreError, Variant
from model_store.hub.card import introduction
from model_store.hub.pulled import source
from model_store.local.imported import origin
from model_store.local.imports import Plan, plan
from model_store.local.other_apps import repositories

CACHE_FIELDS = ("name", "family", "parameters", "size", "why_not")
RUNTIMES = ("onnxruntime", "openvino", "coremltools")


def print_models(models: Sequence[StoredModel], broken: Mapping[str, str], *, as_json: bool) -> None:
    """One line per model; what is wrong with others goes to standard error."""
    for name, problem in broken.items():
        print(f"Warning: {printable(f'{name}: {problem}')}", file=sys.stderr)
    if as_json:
        return print(json.dumps([_facts(model) for model in models], indent=2, default=str))
    rows = [
        (
            model.name,
            model.family,
            count(model.parameters),
            f"{model.context_length:,}",
            "chat" if model.chats else "base",
            size(model.size + sum(variant.size for variant in model.variants)),
            ", ".join(f"{one.backend}-{one.precision}{_badge(one)}" for one in model.variants) or "-",
        )
        for model in models
    ]
    print(table(("NAME", "FAMILY", "PARAMETERS", "CONTEXT", "KIND", "SIZE", "LOWERED"), rows))


def print_model(model: StoredModel, *, as_json: bool) -> None:
    """Everything about one model, with the beginning of its card where it has one."""
    if as_json:
        return print(json.dumps(_facts(model), indent=2, default=str))
    rows = [
        ("name", model.name),
        ("family", model.family),
        ("parameters", f"{model.parameters:,}"),
        ("context", f"{model.context_length:,} tokens"),
        ("kind", "answers messages" if model.chats else "continues text (base model)"),
        ("sampling", _sampling(model.folder)),
        ("precision", f"{model.precision} ({model.precision_reason})"),
        ("checkpoint", f"{origin(model.folder)} ({size(model.size)})"),
        *_origin(model.folder),
    ]
    for one in model.variants:
        rows.append((f"{one.backend} {one.precision}", _lowered(model, one)))
        if one.made:
            rows.append(("", _made(one)))
        rows += [("", line) for device, verdict in one.verdicts.items() for line in _verdict(device, verdict)]
        if not one.verdicts:
            rows.append(("", f"not verified; chatapp verify {model.name} --precision {one.precision} does it"))
    width = max(len(name) for name, _ in rows)
    print(printable("\n".join(f"{name:{width}}  {value}" for name, value in rows)))
    if text := introduction(model.folder):
        print(printable(f"\n{text}\n\nThe whole card: {model.folder / 'README.md'}"))


def print_import(found: Plan, *, done: bool, as_json: bool) -> None:
    """What is imported, or would be."""
    model = found.model
    if as_json:
        facts = {"imported": done, "kind": found.kind, "source": str(found.source), "copied": found.copied}
        return print(json.dumps(facts | {"free": found.free, "model": _facts(model)}, indent=2, default=str))
    rows = [
        ("name", model.name),
        ("found", f"{found.kind} {found.source} ({size(model.size)})"),
        ("family", model.family),
        ("parameters", f"{model.parameters:,}"),
        ("context", f"{model.context_length:,} tokens"),
        ("kind", "answers messages" if model.chats else "continues text (base model)"),
        ("precision", f"{model.precision} ({model.precision_reason})"),
        ("copied", f"{size(found.copied)} of {size(found.free)} free" if found.copied else "nothing: it stays there"),
    ]
    width = max(len(name) for name, _ in rows)
    print(printable("\n".join(f"{name:{width}}  {value}" for name, value in rows)))
    how = f"Imported: chatapp run {model.name}" if done else "This is a dry run: nothing was done."
    print(printable(f"\n{how}"))


def print_cache(store: Store, *, as_json: bool) -> None:
    """The models in the cache of the Hub, and why some of them cannot run."""
    assert store.places
    rows = []
    for name in repositories(store.places.hub_cache):
        try:
            model = plan(store, name).model
            rows.append((name, model.family, count(model.parameters), size(model.size), ""))
        except StoreError as error:
            rows.append((name, "-", "-", "-", str(error)))
    if as_json:
        return print(json.dumps([dict(zip(CACHE_FIELDS, row, strict=True)) for row in rows], indent=2))
    if not rows:
        return print(printable(f"There are no models in {store.places.hub_cache}."))
    print(table(("NAME", "FAMILY", "PARAMETERS", "SIZE", "WHY NOT"), rows))


def _origin(folder: Path) -> list[tuple[str, str]]:
    """Where a pulled checkpoint is from."""
    if not (facts := source(folder)):
        return []
    page = f"{facts.get('endpoint')}/{facts.get('repository')}"
    return [("from", f"{page} at {facts.get('commit')}"), ("licence", str(facts.get("licence")))]


def _made(variant: Variant) -> str:
    """What made a variant, when, and what its bytes are."""
    made = variant.made
    day = datetime.fromtimestamp(float(made.get("time", 0)), UTC).date()
    return f"by {made.get('by')}, {day}, for {variant.signature}; {made.get('digest')}"


def _lowered(model: StoredModel, variant: Variant) -> str:
    """Where a variant is, how large, and what carries its weights where the runtime has no type for them."""
    held = f"{size(variant.size)}, {variant.size * 8 / model.parameters:.1f} bits a weight"
    carrier = "" if model.export else backends.get(variant.backend).carrier(variant.precision)
    return f"{variant.folder} ({held}{f'; weights exactly so, carried by {carrier}' if carrier else ''})"


def _badge(variant: Variant) -> str:
    """Whether a variant was verified, in a word."""
    if not variant.verdicts:
        return ""
    return " (verified)" if all(verdict["passed"] for verdict in variant.verdicts.values()) else " (failed)"


def _verdict(device: str, verdict: Mapping[str, Any]) -> list[str]:  # Any: JSON, as chatapp.evaluation.verify wrote it
    """What verification found on a device: how far the logits are from the original's at most, and what failed."""
    original = [one for one in verdict.get("comparisons", []) if one.get("against") == ORIGINAL]
    figures = [
        f"{words} {max(values):.2g}"
        for name, words in (("max_error", "max |Δ|"), ("mean_kl", "mean KL"))
        if (values := [one[name] for one in original if one.get(name) is not None])
    ]
    agreement = [one["top1"] for one in original if one.get("top1") is not None]
    figures += [f"top-1 {min(agreement):.1%}"] if agreement else []
    word = "verified" if verdict["passed"] else "FAILED"
    day, reference = verdict.get("date", "")[:10], verdict.get("reference", "")
    line = f"{word} on {device}, {day}" + (f": {', '.join(figures)}" if figures else "")
    more = (f"against {telling(reference)}", *verdict.get("failures", []), *verdict.get("notes", []))
    return [line, *(f"  {what}" for what in more)]


def _sampling(folder: Path) -> str:
    """What the model's publisher recommends, as far as it differs from what is done anyway."""
    usual, published = asdict(Options()), asdict(published_options(folder))
    recommended = ", ".join(f"{name} {value}" for name, value in published.items() if value != usual[name])
    return recommended or "the usual defaults"


def _facts(model: StoredModel) -> dict[str, object]:
    reasons = {"precision": model.precision, "precision_reason": model.precision_reason}
    try:
        came_from = source(model.folder)
    except StoreError:  # `broken` tells of it
        came_from = {}
    return asdict(model) | reasons | {"source": came_from}


def print_devices(*, as_json: bool) -> None:
    """One line per backend and device, with what runs there."""
    modules = {name: backends.get(name) for name in backends.NAMES}
    rows = [(name, device, module.signature()) for name, module in modules.items() for device in module.devices()]
    rows += [(name, "-", reason) for name, module in modules.items() if (reason := module.missing())]
    if as_json:
        facts = [
            {"backend": name, "device": None, "missing": text}
            if device == "-"
            else {"backend": name, "device": device, "runs": text}
            for name, device, text in rows
        ]
        return print(json.dumps(facts, indent=2))
    print(table(("BACKEND", "DEVICE", "RUNS, OR WHY NOT"), rows))


def print_choice(
    model: StoredModel, ranking: Sequence[Measurement], every: Sequence[Measurement], objective: str, *, as_json: bool
) -> None:
    """What was measured of the ways of running a model, the chosen one first, then those that were rejected."""
    rejected = [one for one in every if one.failure]
    if as_json:
        facts = {"model": model.name, "objective": objective, "ranking": [asdict(one) for one in ranking]}
        return print(json.dumps(facts | {"rejected": [asdict(one) for one in rejected]}, indent=2))
    lengths = [f"{length} TOKENS" for length, _ in ranking[0].first_token] if ranking else []
    rows = [
        (
            one.placement.backend,
            one.placement.device,
            one.placement.precision,
            *(milliseconds(seconds) for _, seconds in one.first_token),
            *map(milliseconds, (one.p50, one.p95, one.load, one.lowering)),
            size(one.peak_memory),
            one.verdict or "-",
        )
        for one in ranking
    ]
    if rows:
        columns = ("BACKEND", "DEVICE", "PRECISION", *lengths, "P50", "P95", "LOAD", "LOWERING", "MEMORY", "CHECK")
        name = printable(model.name)
        print(f"{name} for {objective}, best first: time to the first token, of a decode step, to load\n")
        print(table(columns, rows))
    for one in rejected:
        print(printable(f"\n{one.placement} is not chosen: {one.failure}"))


def print_versions() -> None:
    """Our version, Python's, and those of the runtimes that are installed."""
    print(f"chatapp {__version__}")
    print(f"python {platform.python_version()}")
    for name in RUNTIMES:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")
