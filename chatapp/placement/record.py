"""The record of measurements: what each placement of a model takes here, kept in a file of the model's folder."""

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
"""What a file of our own raises that is not there, or that a disk or somebody changed."""
RECORD = "calibration.json"
"""In a model's folder: the measurements."""
MANY = 8
"""Answers at once of which a decode step is timed, too: as many as a server has by default."""
FIRST_USE = "first_use.json"
"""In a model's folder, while a placement is used for the first time: which it is, should the process die."""


@dataclass(frozen=True)
class Measurement:
    """What a placement of a model takes; durations in seconds, memory in bytes."""

    placement: Placement
    failure: str | None = None
    """Why it must not be chosen; the figures are then incomplete."""
    verdict: str = ""
    """What the comparison of its logits with the reference found."""
    lowering: float = 0.0
    load: float = 0.0
    first_token: tuple[tuple[int, float], ...] = ()
    """For each prompt length in tokens, the time to the logits of the first token."""
    p50: float = 0.0
    p95: float = 0.0
    """Of a decode step."""
    step_of_many: float = 0.0
    """Of a decode step of MANY answers at once, half of which take less."""
    prefill_work: float = 0.0
    """Processor seconds, all cores together, of a token of a prompt."""
    step_work: float = 0.0
    """Processor seconds of a decode step."""
    peak_memory: int = 0


def read_measurement(facts: dict[str, Any]) -> Measurement:  # Any: parsed JSON
    """The measurement that `asdict` took apart; raises KeyError or TypeError when it is something else."""
    facts = dict(facts)
    placement = facts.pop("candidate", None) or facts["placement"]  # as the first versions called it
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
    """The measurements of a model's folder made under these conditions (`here`); none when any has changed."""
    with suppress(*UNREADABLE):  # not there, or damaged: it is measured anew
        with open(folder / RECORD, "rb", 0) as file:
            facts = json.loads(file.read())
        if facts["machine"] == (here or conditions()):
            return [read_measurement(one) for one in facts["measured"]]
    return []


def add(store: Store, model: StoredModel, found: Sequence[Measurement]) -> list[Measurement]:
    """Record measurements, where that can be written; all that are known now."""
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
    """Forget the placement whose first use had no end, so that it is tried anew."""
    with suppress(OSError):
        (store.folder(model.name) / FIRST_USE).unlink(missing_ok=True)


def conditions() -> dict[str, object]:
    """The conditions of a measurement: what is measured, the backends' versions and the processor with its cores."""
    versions: dict[str, object] = {"many": MANY}
    for name in backends.NAMES:
        with suppress(BackendError):  # not installed
            versions[name] = backends.get(name).signature()
    return {"processor": processor(), "cores": os.cpu_count(), **versions}


def read_first_use(folder: Path) -> tuple[Placement | None, int]:
    """The placement whose first use was begun, and how often without an end."""
    with suppress(*UNREADABLE):  # as a rule it is not there
        facts = json.loads((folder / FIRST_USE).read_text("utf-8"))
        return Placement(**facts["placement"]), int(facts["times"])
    return None, 0
