"""The record of measurements of a model's placements, a file in the model's folder."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import backends
from backends import BackendError, Placement
from backends.processor import processor
from model_store import Store, StoredModel, write_json

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The exceptions of reading a file of our own that is missing, damaged or was changed."""
RECORD = "calibration.json"
"""The file with measurements, in a model's folder."""
MANY = 8
"""Batch size for which a decode step is timed too: a server's default."""
FIRST_USE = "first_use.json"
"""The file that exists during the first use of a placement, naming it, in case the process dies."""


@dataclass(frozen=True)
class Measurement:
    """Measurements of a placement; durations in seconds, memory in bytes."""

    placement: Placement
    failure: str | None = None
    """Why it must not be chosen; the figures are then incomplete."""
    verdict: str = ""
    """The result of comparing its logits with the reference."""
    lowering: float = 0.0
    load: float = 0.0
    first_token: tuple[tuple[int, float], ...] = ()
    """Seconds to the first token's logits, for each prompt length in tokens."""
    p50: float = 0.0
    p95: float = 0.0
    """The 95th percentile of a decode step's seconds."""
    step_of_many: float = 0.0
    """Median time of a decode step with a batch of MANY."""
    prefill_work: float = 0.0
    """Processor seconds, over all cores, per token of a prompt."""
    step_work: float = 0.0
    """Processor seconds of a decode step."""
    peak_memory: int = 0


def read_measurement(facts: dict[str, Any]) -> Measurement:  # Any: parsed JSON
    """Read what `asdict` wrote; raises KeyError or TypeError for anything else."""
    facts = dict(facts)
    placement = facts.pop("candidate", None) or facts["placement"]  # the first versions called it so
    pairs = tuple((int(length), float(seconds)) for length, seconds in facts["first_token"])
    found = Measurement(**{**facts, "placement": Placement(**placement), "first_token": pairs})
    for field in fields(Measurement):
        kind = (int, float) if isinstance(field.default, int | float) else type(field.default)
        if field.name not in ("placement", "failure") and not isinstance(getattr(found, field.name), kind):
            raise TypeError(f"its {field.name}")
    if not isinstance(found.failure, str | None) or not all(
        isinstance(x, str) for x in asdict(found.placement).values()
    ):
        raise TypeError("its failure, or its placement")
    return found


def read(folder: Path, here: Mapping[str, object] | None = None) -> list[Measurement]:
    """The measurements recorded under the current conditions (`here`); none if any has changed."""
    with suppress(*UNREADABLE):  # missing or damaged: measure again
        with open(folder / RECORD, "rb", 0) as file:
            facts = json.loads(file.read())
        if facts["machine"] == (here or conditions()):
            return [read_measurement(one) for one in facts["measured"]]
    return []


def add(store: Store, model: StoredModel, found: Sequence[Measurement]) -> list[Measurement]:
    """Record measurements if possible; returns all known ones."""
    from model_store import bandwidth, fit

    folder = store.folder(model.name)
    new, before = {one.placement for one in found}, read(folder)
    for one in found:
        if one not in before and not model.export:
            size = fit.lowered_size(model.parameters, one.placement.precision)
            bandwidth.learn(store.location(model.name).root, size, one.p50)
    known = [*(one for one in before if one.placement not in new), *found]
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RECORD, {"machine": conditions(), "measured": [asdict(one) for one in known]})
    return known


def forget_first_use(store: Store, model: StoredModel) -> None:
    """Forget a first use that did not finish, so that the placement is tried again."""
    with suppress(OSError):
        (store.folder(model.name) / FIRST_USE).unlink(missing_ok=True)


def conditions() -> dict[str, object]:
    """The conditions of measurements: what is measured, versions of backends, processor and cores."""
    versions: dict[str, object] = {"many": MANY}
    for name in backends.NAMES:
        with suppress(BackendError):  # not installed
            versions[name] = backends.get(name).signature()
    return {"processor": processor(), "cores": os.cpu_count(), **versions}


def read_first_use(folder: Path) -> tuple[Placement | None, int]:
    """The placement whose first use did not finish, and how often."""
    with suppress(*UNREADABLE):  # usually missing
        facts = json.loads((folder / FIRST_USE).read_text("utf-8"))
        return Placement(**facts["placement"]), int(facts["times"])
    return None, 0
