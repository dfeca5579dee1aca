"""Time and verify one placement of a model in a child process, which may crash or hang without harm."""

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from backends import Placement, Session
from chatapp.placement.record import MANY, Measurement, read_measurement
from chatapp.placement.selection import TIE, estimate_cost
from chatapp.settings import offline
from chatapp.text.child import Child, Watch, describe_ending, end_with_parent, parse
from model_store import Progress, Store, StoredModel, Variant
from model_store.models import LARGE

PROMPTS = (32, 256)
"""Lengths of the timed prompts, in tokens, as far as they fit the context."""
STEPS = 48
"""Number of timed decode steps."""
PATIENCE = 180.0
"""Seconds without progress after which a calibration counts as hung."""
TICK = 0.1
"""Seconds between two checks of whether a calibration is still wanted."""
COMMAND = (sys.executable, "-P", "-m", "chatapp.placement.calibration")
"""-P: without the current folder, whose modules are not ours to import."""


class Stopped(Exception):
    """A calibration was stopped, because somebody waits for an answer."""


def calibrate(
    store: Store,
    model: str,
    placement: Placement,
    *,
    reference: Path | None = None,
    on_progress: Progress | None = None,
    command: Sequence[str] = COMMAND,
    patience: float = PATIENCE,
    stop: threading.Event | None = None,
) -> Measurement:
    """Measure and verify a placement in a child process; any error becomes the result's `failure`.

    The logits to compare with are kept in the file `reference`, for the next placement. When `stop` is set, the process
    is ended and Stopped raised; a calibration that can be stopped runs at low priority.
    """
    roots = [str(root) for root in store.roots]
    request: dict[str, object] = {"roots": roots, "model": model, "placement": asdict(placement)}
    request |= {"reference": str(reference) if reference else "", "gives_way": stop is not None}

    def ask() -> Measurement:
        child = Child(command, json.dumps(request))
        return hear(placement, child, on_progress=on_progress, patience=patience, stop=stop)

    found = ask()
    if found.lowering and not found.failure:  # lowering's memory must not count as the model's
        lowering, found = found.lowering, ask()
        if found.lowering and not found.failure:
            return Measurement(placement, failure="another process keeps lowering the model", lowering=lowering)
        found = replace(found, lowering=lowering)
    return found


def hear(
    placement: Placement, child: Child, *, on_progress: Progress | None, patience: float, stop: threading.Event | None
) -> Measurement:
    """The measurement that a child process reports, or how it ended."""
    sign = time.monotonic()

    def look() -> str:
        if stop and stop.is_set():
            return "stopped"
        return "hung" if time.monotonic() > sign + patience else ""

    with child, Watch(child.process, look, TICK) as watch:
        for line in child.lines():
            sign = time.monotonic()
            message = parse(line)
            if "measured" in message:
                return read_measurement(message["measured"])
            if "failure" in message:
                return Measurement(placement, failure=message["failure"])
            if on_progress and "step" in message:
                on_progress(f"trying {placement}: {message['step']}", message["share"])
        if watch.reason == "stopped":
            raise Stopped
        if watch.reason:
            return Measurement(placement, failure=f"it did not respond for {patience:.0f} seconds")
        return Measurement(placement, failure=explain_ending(child))


def explain_ending(child: Child) -> str:
    """Why a child ended without a result, with its last line on standard error."""
    code, last = child.process.wait(), child.complaint()
    how = f"it crashed ({describe_ending(code)})" if code < 0 else f"it failed with {describe_ending(code)}"
    return f"{how}: {last}" if last else how


# In the child process


def measure(
    store: Store, name: str, placement: Placement, reference: Path | None, on_progress: Progress
) -> Measurement:
    """Lower if need be, load, time and verify, in this process."""
    import backends

    model = store.get(name)
    variant = store.lowered(model, placement.backend, placement.precision, on_progress)
    if variant.seconds:
        return Measurement(placement, lowering=variant.seconds)
    backends.prepare(placement.backend, variant.folder, device=placement.device, on_progress=on_progress)
    found = time_types(placement, variant.folder, on_progress)
    if model.export:
        return replace(found, verdict="nothing to compare with")
    passed = check(store, model, variant, placement.device, reference, on_progress)
    return replace(found, verdict="passed" if passed else "failed")


def time_types(placement: Placement, folder: Path, on_progress: Progress) -> Measurement:
    """Load and time a lowered decoder in each type that it can be computed in; it is computed in the quickest then."""
    import backends

    types = backends.list_types(placement.backend, folder, device=placement.device)
    timed, quickest = dict[str, Measurement](), types[0]
    try:
        for kind in types:
            backends.compute_in(placement.backend, folder, kind)
            on_progress("loading", 0.0)
            start = time.perf_counter()
            session = backends.get(placement.backend).load(folder, device=placement.device)
            found = Measurement(placement, load=time.perf_counter() - start)
            timed[kind] = time_session(found, session, on_progress)
            del session  # before another is loaded
            if estimate_cost(timed[kind], "chat") < (1 - TIE) * estimate_cost(timed[quickest], "chat"):
                quickest = kind
    finally:
        backends.compute_in(placement.backend, folder, quickest)
    return timed[quickest]


def time_session(found: Measurement, session: Session, on_progress: Progress) -> Measurement:
    """Time prompts and decode steps, in wall and processor seconds, and add the peak memory."""
    from chatapp.evaluation.timing import CONTEXT, ENOUGH, time_decode, time_prefill
    from chatapp.generation.memory import peak_memory

    on_progress("timing", 0.0)
    lengths = sorted({min(length, session.context_length // 2) for length in PROMPTS})
    first_token, work = [], 0.0
    for number, length in enumerate(lengths, 1):
        begun = time.process_time()
        prefill = time_prefill(session, length, enough=ENOUGH)
        work = (time.process_time() - begun) / prefill.reads / length
        first_token.append((length, prefill.time_to_first_token))
        on_progress("timing", number / (len(lengths) + 1))
    begun = time.process_time()
    decode = time_decode(session, 1, STEPS, enough=ENOUGH)
    decoding = time.process_time() - begun - work * min(CONTEXT, session.context_length // 2)
    memory = peak_memory()  # with one answer
    of_many = time_decode(session, MANY, STEPS // 2, enough=ENOUGH)
    return replace(
        found,
        first_token=tuple(first_token),
        p50=decode.p50,
        p95=decode.p95,
        step_of_many=of_many.p50,
        prefill_work=work,
        step_work=max(0.0, decoding) / (len(decode.latencies) + 1),
        peak_memory=memory,
    )


def check(
    store: Store, model: StoredModel, variant: Variant, device: str, reference: Path | None, on_progress: Progress
) -> bool:
    """Verify a variant against the NumPy decoder's logits, which are computed once and kept in a file.

    For a large model only a part is compared, unless `chatapp verify` has compared it all.
    """
    from chatapp.evaluation.verify import NUMPY, reference_file
    from chatapp.evaluation.verify.reference import from_numpy
    from chatapp.evaluation.verify.verdict import verify, verify_part

    if model.parameters >= LARGE:
        if earlier := variant.verdicts.get(device):
            return bool(earlier["passed"])
        return verify_part(store, model, variant, device=device, on_progress=on_progress).passed
    if reference and reference.exists():
        known = replace(reference_file.from_file(reference, model, variant.precision, on_progress), name=NUMPY)
    else:
        known = from_numpy(model, variant.precision, on_progress)
        if reference:
            reference_file.write(known, model, reference)
    return verify(store, model, variant, device=device, reference=known, on_progress=on_progress).passed


def main() -> None:
    """Read a request from standard input; print progress and the result as lines of JSON."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of runtimes must not reach the parent's parser
    request = json.loads(sys.stdin.readline())
    end_with_parent()
    if offline.wanted():
        offline.enforce()
    if request["gives_way"] and hasattr(os, "nice"):
        os.nice(10)

    roots = [Path(root) for root in request["roots"]]

    def tell(message: dict[str, object]) -> None:
        print(json.dumps(message), file=output, flush=True)

    try:
        found = measure(
            Store(roots[0], more=roots[1:]),
            request["model"],
            Placement(**request["placement"]),
            Path(request["reference"]) if request["reference"] else None,
            lambda step, share: tell({"step": step, "share": share}),
        )
        tell({"measured": asdict(found)})
    except Exception as error:  # runtimes raise anything
        tell({"failure": str(error) or type(error).__name__})


if __name__ == "__main__":
    main()
