"""Choose where a model runs: among the ways that were timed on this machine and whose logits were checked."""

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import backends
from backends import BackendError, Session
from backends.processor import processor
from chatapp.generation.engine import Engine
from chatapp.generation.fallback import FallbackSession
from chatapp.generation.load import load_engine
from chatapp.placement.calibration import Candidate, Measured, calibrate, read_measured
from model_store import Progress, Store, StoredModel, Variant, bandwidth, fit, write_json

WORKLOADS = {"chat": (256, 128), "completion": (256, 16), "battery": (256, 128)}
"""For each objective, the tokens of the prompt and of the answer that are to be quick, or little work."""
TIE = 0.03
"""Difference below which two ways count as equally good, and the usual one is taken."""

LESS_ROUNDED = ("int8-128", "f32")
"""What takes the place, in turn, of a model's own precision that fails."""

UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What a file of our own is that is not there, or that a disk or somebody changed."""
RECORD = "calibration.json"
"""In a model's folder: what was measured."""
FIRST_USE = "first_use.json"
"""In a model's folder, while something is used for the first time: with what it was, should the process die."""

Calibrate = Callable[..., Measured]


@dataclass(frozen=True)
class Wish:
    """What the user has decided; the rest is chosen."""

    backend: str | None = None
    device: str | None = None
    precision: str | None = None
    objective: str = "chat"


def open_engine(
    store: Store,
    name: str,
    wish: Wish,
    *,
    on_progress: Progress | None = None,
    on_fallback: Callable[[str], object] = lambda reason: None,
) -> Engine:
    """Open the model called `name` where the user wishes or, if one is free to choose, where it runs best.

    Then a way that fails gives way to the next best, and `on_fallback` is told. Raises StoreError or BackendError,
    with a message for the user.
    """
    model = store.get(name)
    ranking = [wished(store, model, wish, wish.backend)] if wish.backend else runnable(store, model, wish)
    chosen = ranking[0].precision
    if not wish.precision and chosen != model.precision:
        on_fallback(
            f"{model.name} fails at {model.precision} here and runs at {chosen} (see: chatapp show {model.name})"
        )
    variants: list[Variant] = []
    failed: list[Measured] = []
    tried = {one.candidate for one in recorded(store.folder(model.name) / RECORD)}

    def opener(candidate: Candidate) -> Callable[[], Session]:
        def open_candidate() -> Session:
            variants.append(store.lowered(model, candidate.backend, candidate.precision, on_progress))
            folder, device = variants[-1].folder, candidate.device
            backends.prepare(candidate.backend, folder, device=device, on_progress=on_progress)
            load = partial(backends.get(candidate.backend).load, folder, device=device)
            if wish.backend or candidate in tried:
                return load()
            try:
                return first_use(store, model, candidate, load)
            except Exception as error:  # a foreign runtime raises what it likes
                failed.append(Measured(candidate, failure=str(error) or type(error).__name__))
                raise

        return open_candidate

    def open_session() -> tuple[Session, float]:
        session = FallbackSession([opener(candidate) for candidate in ranking], on_fallback)
        if failed:  # and another did not: it is the backend's fault, and not tried again
            add(store, model, failed)
        return session, sum(variant.seconds for variant in variants)

    return load_engine(store, model, open_session)


def runnable(store: Store, model: StoredModel, wish: Wish) -> list[Candidate]:
    """The ways that may run a model: the best known first, then those that nobody has tried, the usual ones first.

    Raises BackendError where there is none.
    """
    known = recorded(store.folder(model.name) / RECORD)
    if (died := first_uses(store.folder(model.name) / FIRST_USE)) and died[0] and died[1] > 1:
        known = add(store, model, [Measured(died[0], failure="it ended the program twice when it was first used")])
    judged: list[Measured] = []
    for precision in precisions(model, wish):
        ways = suitable(model, precision, wish.device)
        found = [one for one in known if one.candidate in ways]
        if not wish.precision:  # who names one gets it, right or wrong
            found = [replace(one, failure=one.failure or rejection(store, model, one.candidate)) for one in found]
        judged += found
        untried = [way for way in ways if way not in {one.candidate for one in found}]
        untried = [way for way in untried if wish.precision or not rejection(store, model, way)]
        if ranking := [one.candidate for one in ranked(found, wish.objective)] + untried:
            return ranking
    raise BackendError(f"{model.name} cannot run here: {failures(judged)}; see chatapp devices")


def candidates(precision: str, device: str | None = None) -> list[Candidate]:
    """Every way of running at a precision, the usual ones first; raises BackendError where there is none."""
    if found := [Candidate(name, there, precision) for name, there in places() if device in (None, there)]:
        return found
    raise BackendError(f"no backend has a device {device!r} here; see chatapp devices")


def suitable(model: StoredModel, precision: str, device: str | None = None) -> list[Candidate]:
    """The candidates that may run a model: of an export, those of its backend; raises BackendError without any."""
    if model.export and (reason := backends.get(model.export).missing()):
        raise BackendError(f"{model.name} is an export for {model.export}, which cannot run here: {reason}")
    if found := [way for way in candidates(precision, device) if model.export in ("", way.backend)]:
        return found
    raise BackendError(f"{model.name} is an export for {model.export}, which has no device {device!r} here")


def first_use(store: Store, model: StoredModel, candidate: Candidate, load: Callable[[], Session]) -> Session:
    """Load what was never tried, and compute a token with it; where that ends the process, a note of it stays."""
    note = store.folder(model.name) / FIRST_USE
    before, times = first_uses(note)
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {"candidate": asdict(candidate), "times": times + 1 if before == candidate else 1})
    try:
        session = load()
        session.forward(np.zeros((1, 1), np.int64))
        session.rewind(0)
        return session
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def first_uses(note: Path) -> tuple[Candidate | None, int]:
    """What was begun to be used for the first time, and how often without an end."""
    with suppress(*UNREADABLE):  # as a rule it is not there
        facts = json.loads(note.read_text("utf-8"))
        return Candidate(**facts["candidate"]), int(facts["times"])
    return None, 0


def wished(store: Store, model: StoredModel, wish: Wish, name: str) -> Candidate:
    """The one way that a user leaves who names a backend; a precision that failed verification must be named too."""
    backend = backends.get(name)
    devices = backend.devices()
    if not devices:
        raise BackendError(f"{name} cannot run here: {backend.missing()}")
    if wish.device and wish.device not in devices:
        raise BackendError(f"{name} has no device {wish.device!r} here; choose from {', '.join(devices)}")
    device = wish.device or devices[0]
    ways = [Candidate(name, device, precision) for precision in precisions(model, wish)]
    usable = [way for way in ways if wish.precision or not rejection(store, model, way)]
    if not usable:
        raise BackendError(
            f"{model.name} failed verification on {name} {device} at {', '.join(way.precision for way in ways)}; "
            f"chatapp show {model.name} tells more, and --precision {model.precision} runs it all the same"
        )
    return usable[0]


def precisions(model: StoredModel, wish: Wish) -> list[str]:
    """What may be chosen, in this order."""
    return [wish.precision] if wish.precision else list(dict.fromkeys((model.precision, *LESS_ROUNDED)))


def rejection(store: Store, model: StoredModel, candidate: Candidate) -> str | None:
    """Why a candidate must not be chosen, if `chatapp verify` has found its logits wrong."""
    variant = store.found(model, candidate.backend, candidate.precision)
    verdict = variant.verdicts.get(candidate.device) if variant else None
    if not verdict or verdict["passed"]:
        return None
    return f"it failed verification: {'; '.join(verdict.get('failures', ()))}"


def expected(store: Store, model: StoredModel, wish: Wish) -> Candidate:
    """What will run, as far as that is known without measuring; a precision that failed before counts as well."""
    precision = wish.precision or model.precision
    if wish.backend:
        return wished(store, model, replace(wish, precision=precision), wish.backend)
    ways = suitable(model, precision, wish.device)
    known = ranked(recorded(store.folder(model.name) / RECORD), wish.objective)
    return next((one.candidate for one in known if one.candidate in ways), ways[0])


def measured(
    store: Store,
    model: StoredModel,
    wish: Wish,
    *,
    anew: bool = False,
    on_progress: Progress | None = None,
    calibrate: Calibrate = calibrate,
) -> tuple[list[Measured], float]:
    """What is known about the ways that a wish leaves, and the seconds that lowering took just now.

    What was not measured with these versions on this machine is measured now, and recorded one by one.
    """
    suitable(model, model.precision, wish.device)  # raises before anything is measured in vain
    if anew:
        forget(store, model)
    known = recorded(store.folder(model.name) / RECORD)
    lowering = 0.0
    fresh: list[Measured] = []
    judged: list[Measured] = []
    # A precision that no backend computes rightly is given up for a finer one, and at last for the exact one.
    for precision in precisions(model, wish):
        ways = candidates(precision)
        every = [one for one in known if one.candidate in ways]
        with TemporaryDirectory() as folder:
            reference = Path(folder) / "reference.npz"
            for place, way in enumerate(ways, 1):
                if way not in {one.candidate for one in every}:
                    report = stage(on_progress, place, len(ways))
                    fresh.append(calibrate(store, model.name, way, reference=reference, on_progress=report))
                    every.append(fresh[-1])
                    lowering += fresh[-1].lowering
                    if any(not one.failure for one in every):  # what fails everywhere may be no fault of the backends
                        add(store, model, fresh)
        found = [one for one in every if wish.device in (None, one.candidate.device)]
        if wish.precision:  # who names a precision gets it, right or wrong
            return found, lowering
        judged = [replace(one, failure=one.failure or rejection(store, model, one.candidate)) for one in found]
        if any(not one.failure for one in judged):
            break
    return judged, lowering


def stage(on_progress: Progress | None, place: int, count: int) -> Progress | None:
    """Progress through one of several ways."""
    if not on_progress:
        return None
    return lambda step, share: on_progress(f"finding the fastest backend ({place} of {count}): {step}", share)


def unmeasured(store: Store, model: StoredModel, wish: Wish) -> list[Candidate]:
    """The ways of running a model, at the precision that would be chosen, that were neither timed nor verified yet."""
    if wish.backend:
        return []
    done = {one.candidate for one in recorded(store.folder(model.name) / RECORD)}
    return [way for way in suitable(model, runnable(store, model, wish)[0].precision) if way not in done]


def places() -> list[tuple[str, str]]:
    """Every backend with every device it has here, the usual ones first."""
    return [(name, device) for name in usual_order() for device in backends.get(name).devices()]


def usual_order() -> list[str]:
    """The backends by rule: Core ML on a Mac, OpenVINO on Intel, ONNX Runtime elsewhere; then the others."""
    first = "coreml" if platform.system() == "Darwin" else "openvino" if "Intel" in processor() else "onnx"
    return sorted(backends.NAMES, key=lambda name: name != first)


def ranked(found: list[Measured], objective: str) -> list[Measured]:
    """Those that may be chosen, the best first; where it is nearly a tie, the usual one."""
    order = usual_order()
    left = sorted((one for one in found if not one.failure), key=lambda one: cost(one, objective))
    ranking = []
    while left:
        limit = cost(left[0], objective) * (1 + TIE)
        tied = [one for one in left if cost(one, objective) <= limit]
        best = min(tied, key=lambda one: order.index(one.candidate.backend))
        ranking.append(best)
        left.remove(best)
    return ranking


def cost(one: Measured, objective: str) -> float:
    """Seconds that the objective's prompt and answer take; for `battery`, processor seconds."""
    prompt, answer = WORKLOADS[objective]
    if objective == "battery":
        return prompt * one.prefill_work + answer * one.step_work
    length, seconds = one.first_token[-1]
    return seconds * prompt / length + answer * one.p50


def failures(found: list[Measured]) -> str:
    """Why each way was rejected."""
    return "; ".join(f"{one.candidate}: {one.failure}" for one in found if one.failure)


def recorded(path: Path | str, here: Mapping[str, object] | None = None) -> list[Measured]:
    """What was measured on this machine with these versions (`here`); nothing, when anything has changed."""
    with suppress(*UNREADABLE):  # not there, or damaged: it is measured anew
        with open(path, "rb", 0) as file:
            facts = json.loads(file.read())
        if facts["machine"] == (here or machine()):
            return [read_measured(one) for one in facts["measured"]]
    return []


def add(store: Store, model: StoredModel, found: Sequence[Measured]) -> list[Measured]:
    """All that is known now with what was found; recorded where that can be written."""
    path = store.folder(model.name) / RECORD
    new, before = {one.candidate for one in found}, recorded(path)
    for one in found:
        if one not in before and not model.export:
            size = fit.lowered_size(model.parameters, one.candidate.precision)
            bandwidth.learn(store.root_of(model.name), size, one.p50)
    known = [*(one for one in before if one.candidate not in new), *found]
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"machine": machine(), "measured": [asdict(one) for one in known]})
    return known


def forget(store: Store, model: StoredModel) -> None:
    """Let everything be tried anew."""
    for name in (RECORD, FIRST_USE):
        with suppress(OSError):
            (store.folder(model.name) / name).unlink(missing_ok=True)


def machine() -> dict[str, object]:
    """What measurements depend on: the backends' versions and the processor with its cores."""
    versions = {}
    for name in backends.NAMES:
        with suppress(BackendError):  # not installed
            versions[name] = backends.get(name).signature()
    return {"processor": processor(), "cores": os.cpu_count(), **versions}
