"""Choose where a model runs: among the ways that were timed on this machine and whose logits were checked."""

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import backends
from backends import BackendError, Session
from backends.processor import processor
from chatapp.calibration import Candidate, Measured, calibrate, read_measured
from chatapp.generation import Engine
from chatapp.generation.fallback import FallbackSession
from chatapp.generation.load import load_engine
from model_store import Progress, Store, StoredModel, Variant, write_json

WORKLOADS = {"chat": (256, 128), "completion": (256, 16), "battery": (256, 128)}
"""For each objective, the tokens of the prompt and of the answer that are to be quick, or little work."""
TIE = 0.03
"""Difference below which two ways count as equally good, and the usual one is taken."""

LESS_ROUNDED = ("int8-128", "f32")
"""What takes the place, in turn, of a model's own precision that fails."""

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

    if wish.backend:
        ranking, lowering = [wished(store, model, wish, wish.backend)], 0.0
    else:
        found, lowering = measured(store, model, wish, on_progress=on_progress)
        ranking = [one.candidate for one in ranked(found, wish.objective)]
        if not ranking:
            raise BackendError(f"{model.name} runs nowhere here: {failures(found)}; see chatapp devices")
    chosen = ranking[0].precision
    if not wish.precision and chosen != model.precision:
        on_fallback(
            f"{model.name} fails at {model.precision} here and runs at {chosen} (see: chatapp show {model.name})"
        )
    variants: list[Variant] = []

    def opener(candidate: Candidate) -> Callable[[], Session]:
        def open_candidate() -> Session:
            variants.append(store.lowered(model, candidate.backend, candidate.precision, on_progress))
            folder, device = variants[-1].folder, candidate.device
            backends.prepare(candidate.backend, folder, device=device, on_progress=on_progress)
            return backends.get(candidate.backend).load(folder, device=device)

        return open_candidate

    def open_session() -> tuple[Session, float]:
        session = FallbackSession([opener(candidate) for candidate in ranking], on_fallback)
        return session, sum(variant.seconds for variant in variants)

    engine = load_engine(store, model, open_session)
    engine.lowering_seconds += lowering
    return engine


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
    known = recorded(store.folder(model.name) / "calibration.json")
    ways = [one.candidate for one in ranked(known, wish.objective)]
    ways += [Candidate(backend, device, precision) for backend, device in places()]
    ways = [way for way in ways if way.precision == precision and wish.device in (None, way.device)]
    if not ways:
        raise BackendError(f"no backend has a device {wish.device!r} here; see chatapp devices")
    return ways[0]


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

    What was not measured with these versions on this machine is measured now, and recorded.
    """
    if model.export and (reason := backends.get(model.export).missing()):
        raise BackendError(f"{model.name} is an export for {model.export}, which cannot run here: {reason}")
    path = store.folder(model.name) / "calibration.json"
    known = [] if anew else recorded(path)
    lowering = 0.0
    found: list[Measured] = []
    # A precision that no backend computes rightly is given up for a finer one, and at last for the exact one.
    for precision in precisions(model, wish):
        every = [one for one in known if one.candidate.precision == precision]
        if not every:
            ways = [Candidate(backend, device, precision) for backend, device in places()]
            reference = path.with_name(f".reference-{os.getpid()}.npz")
            try:
                every = [
                    calibrate(store, model.name, way, reference=reference, on_progress=on_progress) for way in ways
                ]
            finally:
                reference.unlink(missing_ok=True)
            lowering += sum(one.lowering for one in every)
            known += every
            if any(not one.failure for one in every):  # what fails everywhere may be no fault of the backends
                record(path, known)
        found = [one for one in every if wish.device in (None, one.candidate.device)]
        if not found:
            raise BackendError(f"no backend has a device {wish.device!r} here; see chatapp devices")
        judged = [replace(one, failure=one.failure or rejection(store, model, one.candidate)) for one in found]
        if any(not one.failure for one in judged):
            return judged, lowering
    # Who names a precision gets it, right or wrong.
    return (found if wish.precision else judged), lowering


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
    with suppress(OSError, ValueError, KeyError, TypeError):  # not there, or damaged: it is measured anew
        with open(path, "rb", 0) as file:
            facts = json.loads(file.read())
        if facts["machine"] == (here or machine()):
            return [read_measured(one) for one in facts["measured"]]
    return []


def record(path: Path, found: list[Measured]) -> None:
    """Keep what was measured, where that can be written."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"machine": machine(), "measured": [asdict(one) for one in found]})


def machine() -> dict[str, object]:
    """What measurements depend on: the backends' versions and the processor with its cores."""
    versions = {}
    for name in backends.NAMES:
        with suppress(BackendError):  # not installed
            versions[name] = backends.get(name).signature()
    return {"processor": processor(), "cores": os.cpu_count(), **versions}
