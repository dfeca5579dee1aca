"""Decide whether a lowered model computes what its checkpoint says, and keep the verdict with it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import backends
from backends import BackendError, HasInt8Cache, Session
from backends.quantize import PRECISIONS, Rounded
from chatapp import __version__
from chatapp.evaluation.verify import NUMPY, ORIGINAL
from chatapp.evaluation.verify.comparison import CUT, EXACT, Comparison, Tally, find_tolerance
from chatapp.evaluation.verify.cut import cut
from chatapp.evaluation.verify.prompts import STEPS, Prompts, make_prompts, walk
from chatapp.evaluation.verify.reference import Logits, Reference, compute, from_numpy, open_weights
from model_store import Progress, Store, StoredModel, StoreError, Variant

FEWEST, HELD = 8, "bytes decode"
"""For the comparison of int8 caches: the tokens after which they are used, and its name."""
NOT_EXACT = "the graph could not be checked at f32: {}"


@dataclass(frozen=True)
class Verdict:
    """Whether a variant may be used on a device, and the figures that decided."""

    passed: bool
    model: str
    backend: str
    device: str
    precision: str
    reference: str
    date: str
    """UTC, in ISO 8601."""
    versions: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    failures: tuple[str, ...]
    """What is wrong, in sentences."""
    notes: tuple[str, ...]
    """What was not compared, and why."""


@dataclass(frozen=True)
class Expected:
    """Logits to compare with, and the limits of the comparison's figures."""

    name: str
    logits: Logits
    limits: Mapping[str, float]


def open_reference(
    model: StoredModel, precision: str, against: str | None = None, *, on_progress: Progress | None = None
) -> Reference:
    """The reference that `against` names: `torch`, or a file; the NumPy decoder if None."""
    if against == "torch":
        from chatapp.evaluation.verify.pytorch import from_torch

        return from_torch(model, precision, on_progress)
    if against:
        from chatapp.evaluation.verify.reference_file import from_file

        return from_file(Path(against), model, precision, on_progress)
    return from_numpy(model, precision, on_progress)


def verify(
    store: Store,
    model: StoredModel,
    variant: Variant,
    *,
    device: str | None = None,
    reference: Reference | None = None,
    on_progress: Progress | None = None,
) -> Verdict:
    """Compare `variant` on `device` (the backend's first) with a reference (the NumPy decoder), and keep the verdict.

    Raises VerifyError, StoreError or BackendError, with a message for the user, if nothing can be compared.
    """
    module = backends.get(variant.backend)
    device = device or module.devices()[0]
    reference = reference or from_numpy(model, variant.precision, on_progress)
    notes: list[str] = []
    comparisons = check_decoder(reference)
    session = module.load(variant.folder, device=device)
    comparisons += check_session(session, variant.precision, reference, on_progress)
    if comparison := check_int8_cache(session, variant.precision, reference):
        if comparison.passed:
            comparisons.append(comparison)
        else:
            notes.append(f"caches in bytes are not used: {'; '.join(comparison.failures)}")
    del session  # before another is loaded
    if PRECISIONS[variant.precision].bits < 32:
        try:
            comparisons += check_graph(store, model, variant.backend, device, prompts=reference.prompts[0])
        except BackendError as error:
            notes.append(NOT_EXACT.format(error))
    return judge(store, model, variant, device, Findings(reference.name, comparisons, notes))


def verify_part(
    store: Store, model: StoredModel, variant: Variant, *, device: str, on_progress: Progress | None = None
) -> Verdict:
    """Compare one layer of each kind, lowered as `variant` was, with the NumPy decoder, and keep the verdict.

    This takes seconds, however large the model is, where `verify` reads all of it several times.
    """
    decoder, _ = open_weights(model)
    prompts = make_prompts(model, decoder)[0]
    notes = [f"only part of the model was compared; to compare all of it: chatapp verify {model.name}"]
    comparisons = []
    precisions = list(dict.fromkeys(("f32", variant.precision)))
    for place, precision in enumerate(precisions):
        if on_progress:
            on_progress("comparing a part", place / len(precisions))
        try:
            comparisons += check_graph(store, model, variant.backend, device, prompts=prompts, precision=precision)
        except BackendError as error:
            if precision == variant.precision:
                raise
            notes.append(NOT_EXACT.format(error))
    return judge(store, model, variant, device, Findings(NUMPY, comparisons, notes))


@dataclass(frozen=True)
class Findings:
    """What was compared with what."""

    reference: str
    comparisons: Sequence[Comparison]
    notes: Sequence[str]


def judge(store: Store, model: StoredModel, variant: Variant, device: str, found: Findings) -> Verdict:
    """Make the verdict from comparisons, and keep it with the variant."""
    verdict = Verdict(
        passed=all(comparison.passed for comparison in found.comparisons),
        model=model.name,
        backend=variant.backend,
        device=device,
        precision=variant.precision,
        reference=found.reference,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"chatapp": __version__, variant.backend: backends.get(variant.backend).signature()},
        comparisons=tuple(found.comparisons),
        failures=tuple(failure for comparison in found.comparisons for failure in comparison.failures),
        notes=tuple(found.notes),
    )
    try:
        store.keep_verdict(variant, device, asdict(verdict))
    except StoreError as error:
        return replace(verdict, notes=(*verdict.notes, f"cannot save this result: {error}"))
    return verdict


def check_decoder(reference: Reference) -> list[Comparison]:
    """Compare the NumPy decoder with another's reference: was the checkpoint understood?"""
    if not reference.decoder:
        return []
    tally, count = Tally(NUMPY, ORIGINAL, EXACT.kept), 0
    for part, prompts in enumerate(reference.prompts):
        for row in range(len(prompts.tokens)):
            tally.add(reference.original[part][row], reference.decoder[part][row], count + row, prompts.first)
        count += len(prompts.tokens)
    return [tally.comparison]


def check_session(
    session: Session, precision: str, reference: Reference, on_progress: Progress | None
) -> list[Comparison]:
    """Compare a session with the reference, with original and with rounded weights."""
    allowed = find_tolerance(session.placement.precision)
    versions = [Expected(ORIGINAL, reference.original, allowed.kept)]
    if precision in reference.rounded:
        versions.append(Expected(f"{precision} weights", reference.rounded[precision], allowed.computed))
    return compare(session, reference.prompts, versions, on_progress)


def check_int8_cache(session: Session, precision: str, reference: Reference) -> Comparison | None:
    """Compare decoding with an int8 cache, and allow or forbid that; None if the session has none."""
    if not isinstance(session, HasInt8Cache) or not session.has_int8_cache or precision not in reference.rounded:
        return None
    session.use_int8_from(FEWEST)
    limits = find_tolerance(session.placement.precision).computed
    versions = [Expected(f"{precision} weights", reference.rounded[precision], limits)]
    [found] = (one for one in compare(session, reference.prompts, versions, prefix="bytes ") if one.what == HELD)
    session.allow_int8(found.passed)
    return found


def check_graph(
    store: Store, model: StoredModel, backend: str, device: str, *, prompts: Prompts, precision: str = "f32"
) -> list[Comparison]:
    """Lower a cut of the model and compare it: at float32 this shows what rounding would hide."""
    small, weights = cut(*open_weights(model))
    prompts = replace(prompts, tokens=prompts.tokens % small.vocab_size)
    logits = compute(small, Rounded(weights, PRECISIONS[precision]), [prompts])
    with store.unfinished(model.name) as folder:
        backends.get(backend).lower(small, weights, folder, precision=precision)
        session = backends.get(backend).load(folder, device=device)
        computes = session.placement.precision  # f16 on devices without f32
        limits = CUT if computes == "f32" else find_tolerance(computes).computed
        count = len(small.layers)
        expected = Expected(f"{precision}, {count} layer{'s' if count > 1 else ''}", logits, limits)
        return compare(session, [prompts], [expected], prefix="graph ")


def compare(
    session: Session,
    wanted: Sequence[Prompts],
    versions: Sequence[Expected],
    on_progress: Progress | None = None,
    *,
    prefix: str = "",
) -> list[Comparison]:
    """Walk a session through the prompts, and compare it with several expectations."""
    tallies = {
        (version.name, step): Tally(prefix + step, version.name, version.limits)
        for version in versions
        for step in STEPS
    }
    count, total = 0, sum(len(prompts.tokens) for prompts in wanted)
    for part, prompts in enumerate(wanted):
        for found in walk(session, prompts):
            start = found.start - prompts.first
            for version in versions:
                expected = version.logits[part][found.row, start : start + len(found.logits)]
                tally = tallies[version.name, found.step]
                tally.add(expected, found.logits, count + found.row, found.start)
                tally.misranked += found.misranked
            if on_progress and found.step == "prefill":
                on_progress("comparing", (count + found.row) / total)
        count += len(prompts.tokens)
    return [tally.comparison for tally in tallies.values()]
