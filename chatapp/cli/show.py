"""`chatapp show`: everything about one model."""

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import backends
from chatapp.cli.arguments import Parser
from chatapp.evaluation.verify import ORIGINAL, telling
from chatapp.generation import Options
from chatapp.generation.published_options import published_options
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.workspace import open_store
from model_store import StoredModel, StoreError, Variant
from model_store.hub.card import introduction
from model_store.hub.pulled import source
from model_store.local.imported import origin


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> int:
    """Print what the store knows of the model."""
    print_model(open_store().get(given.model), as_json=given.json)
    return 0


def print_model(model: StoredModel, *, as_json: bool) -> None:
    """Everything about one model, with the beginning of its card where it has one."""
    if as_json:
        return print(json.dumps(facts(model), indent=2, default=str))
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


def facts(model: StoredModel) -> dict[str, object]:
    """A model for programs."""
    reasons = {"precision": model.precision, "precision_reason": model.precision_reason}
    try:
        came_from = source(model.folder)
    except StoreError:  # `broken` tells of it
        came_from = {}
    return asdict(model) | reasons | {"source": came_from}
