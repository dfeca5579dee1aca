"""Choose where a model runs, among placements that were timed and verified on this machine."""

import platform
from dataclasses import dataclass, replace

import backends
from backends import BackendError, Placement
from backends.processor import processor
from chatapp.placement import record
from chatapp.placement.record import MANY, Measurement
from model_store import Store, StoredModel
from model_store.models import MIXTURES

WORKLOADS = {"chat": (256, 128), "completion": (64, 16), "throughput": (256, 128), "battery": (256, 128)}
"""For each objective, the tokens of the prompt and of the answer that should be fast, or take little energy.

While code is typed, all but the last tokens of a prompt are cached; one request in eight is at a new place."""
TIE = 0.03
"""Below this relative difference two placements are equally good, and the usual one is chosen."""
LESS_ROUNDED = ("int8-128", "f32")
"""The precisions to try, in order, if a model's own fails."""


@dataclass(frozen=True)
class PlacementOptions:
    """The user's choices of where a model runs; None is left open."""

    backend: str | None = None
    device: str | None = None
    precision: str | None = None
    objective: str = "chat"


def rank_runnable(store: Store, model: StoredModel, options: PlacementOptions) -> list[Placement]:
    """The placements that may run a model: measured ones by rank, then untried ones in their usual order.

    Raises BackendError if there is none.
    """
    folder = store.folder(model.name)
    known = record.read(folder)
    died, times = record.read_first_use(folder)
    if died and times > 1:
        failed = Measurement(died, failure="it crashed chatapp twice on first use")
        known = record.add(store, model, [failed])
    judged: list[Measurement] = []
    for precision in list_precisions(model, options):
        suitable = list_suitable(model, precision, options.device)
        found = [one for one in known if one.placement in suitable]
        untried = [Measurement(one) for one in suitable if one not in {tried.placement for tried in found}]
        if not options.precision:  # a named precision is used, right or wrong
            found, untried = judge(store, model, found), judge(store, model, untried)
        judged += [*found, *untried]
        ranking = [*rank(found, options.objective), *(one for one in untried if not one.failure)]
        if ranking:
            return [one.placement for one in ranking]
    raise BackendError(f"{model.name} cannot run here: {explain_failures(store, model, judged)}")


def choose_on_backend(store: Store, model: StoredModel, options: PlacementOptions, name: str) -> Placement:
    """The placement on a backend that the user names; a precision that failed verification must be named too."""
    device = choose_device(name, options.device)
    possible = [Placement(name, device, precision) for precision in list_precisions(model, options)]
    usable = [one for one in possible if options.precision or not find_rejection(store, model, one)]
    if not usable:
        raise BackendError(
            f"{model.name} failed verification on {name} {device} at {', '.join(one.precision for one in possible)}; "
            f"chatapp show {model.name} tells more, and {advise(store, model)}"
        )
    return usable[0]


def choose_device(name: str, device: str | None) -> str:
    """The device on a backend that the user names: the wanted one, or the first."""
    backend = backends.get(name)
    devices = backend.devices()
    if not devices:
        raise BackendError(f"{name} cannot run here: {backend.missing()}")
    if device and device not in devices:
        raise BackendError(f"{name} has no device {device!r} here; choose from {', '.join(devices)}")
    return device or devices[0]


def check_place(options: PlacementOptions) -> None:
    """Raise for a backend or device that this machine lacks."""
    if options.backend:
        choose_device(options.backend, options.device)
    else:
        list_placements("", options.device)


def expect(store: Store, model: StoredModel, options: PlacementOptions) -> Placement:
    """The likely placement, without measuring; may be at a precision that failed."""
    precision = options.precision or model.precision
    if options.backend:
        return choose_on_backend(store, model, replace(options, precision=precision), options.backend)
    suitable = list_suitable(model, precision, options.device)
    known = rank(record.read(store.folder(model.name)), options.objective)
    return next((one.placement for one in known if one.placement in suitable), suitable[0])


def list_placements(precision: str, device: str | None = None, *, backend: str | None = None) -> list[Placement]:
    """The placements at a precision, the usual ones first; raises BackendError if there is none."""
    here = [one for one in list_devices() if backend in (None, one[0]) and device in (None, one[1])]
    if here:
        return [Placement(*one, precision) for one in here]
    raise BackendError(f"no backend has a device {device!r} here; see chatapp devices")


def list_suitable(model: StoredModel, precision: str, device: str | None = None) -> list[Placement]:
    """The placements that suit a model; an export has its backend only. Raises BackendError if there is none."""
    if model.export and (reason := backends.get(model.export).missing()):
        raise BackendError(f"{model.name} is an export for {model.export}, which cannot run here: {reason}")
    if found := [one for one in list_placements(precision, device) if model.export in ("", one.backend)]:
        if model.family not in MIXTURES:
            return found
        return sorted(found, key=lambda one: one.backend != "onnx")  # the others read prompts slowly, or were not timed
    raise BackendError(f"{model.name} is an export for {model.export}, which has no device {device!r} here")


def list_precisions(model: StoredModel, options: PlacementOptions) -> list[str]:
    """The precisions that may be chosen, in order."""
    return [options.precision] if options.precision else list(dict.fromkeys((model.precision, *LESS_ROUNDED)))


def judge(store: Store, model: StoredModel, found: list[Measurement]) -> list[Measurement]:
    """The measurements, failed where `chatapp verify` found the logits wrong."""
    return [replace(one, failure=one.failure or find_rejection(store, model, one.placement)) for one in found]


def find_rejection(store: Store, model: StoredModel, placement: Placement) -> str | None:
    """Why `chatapp verify` rejected a placement; None if it did not."""
    variant = store.find_variant(model, placement.backend, placement.precision)
    verdict = variant.verdicts.get(placement.device) if variant else None
    if not verdict or verdict["passed"]:
        return None
    return f"it failed verification: {'; '.join(verdict.get('failures', ()))}"


def list_devices() -> list[tuple[str, str]]:
    """Every backend with each of its devices here, the usual ones first."""
    return [(name, device) for name in order_backends() for device in backends.get(name).devices()]


def order_backends() -> list[str]:
    """The backends in usual order: Core ML on a Mac, OpenVINO on Intel, ONNX Runtime elsewhere; then the others."""
    first = "coreml" if platform.system() == "Darwin" else "openvino" if "Intel" in processor() else "onnx"
    return sorted(backends.NAMES, key=lambda name: name != first)


def rank(found: list[Measurement], objective: str) -> list[Measurement]:
    """The measurements without failures, best first; in near ties the usual placement wins."""
    order = order_backends()
    left = sorted((one for one in found if not one.failure), key=lambda one: estimate_cost(one, objective))
    ranking = []
    while left:
        limit = estimate_cost(left[0], objective) * (1 + TIE)
        tied = [one for one in left if estimate_cost(one, objective) <= limit]
        best = min(tied, key=lambda one: order.index(one.placement.backend))
        ranking.append(best)
        left.remove(best)
    return ranking


def estimate_cost(one: Measurement, objective: str) -> float:
    """The cost in seconds of the objective's prompt and answer.

    `throughput`: of MANY prompts, one by one, and their answers in one batch; `completion`: with steps of MANY rows, as
    in a search for lines; `battery`: in processor seconds.
    """
    prompt, answer = WORKLOADS[objective]
    if objective == "battery":
        return prompt * one.prefill_work + answer * one.step_work
    length, seconds = one.first_token[-1]
    if objective == "throughput":
        return MANY * seconds * prompt / length + answer * one.step_of_many
    step = one.step_of_many if objective == "completion" else one.p50
    return seconds * prompt / length + answer * step


def explain_failures(store: Store, model: StoredModel, found: list[Measurement]) -> str:
    """Why each placement was rejected, and what to do."""
    wrong = any(find_rejection(store, model, one.placement) for one in found)
    reasons = [f"{one.placement}: {one.failure}" for one in found if one.failure]
    return "; ".join([*reasons, advise(store, model) if wrong else "see chatapp devices"])


def advise(store: Store, model: StoredModel) -> str:
    """What to name where verification failed: a place and precision that passed it, or else the usual precision."""
    for one in store.get(model.name).variants:
        passed = any(verdict["passed"] for verdict in one.verdicts.values())
        if passed and store.find_variant(model, one.backend, one.precision):  # not one of another version
            return f"--backend {one.backend} --precision {one.precision} passed it"
    return f"--precision {model.precision} runs it all the same"
