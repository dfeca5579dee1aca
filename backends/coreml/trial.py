"""Try a package on a device in a process of its own, which may crash or hang without harm.

python -m backends.coreml.trial FOLDER LAYOUT POLICY DEVICE RUNTIME prints what `Trial` says, as JSON.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends import BackendError
from backends.coreml.inputs import Layout, Package, Policy
from backends.coreml.packages import expected
from backends.coreml.runtime import Runtime, runtime
from backends.coreml.session import Session

LIMIT = 600.0
"""Seconds that a trial may take; preparing a large model for the Neural Engine takes minutes."""
BEAT = 5.0
"""Seconds between two signs of life."""
MEAN, WORST = 0.05, 0.5
"""How far logits may be from the reference's, on average and at most, in standard deviations of them."""
STEPS = 256
"""Steps in a row: some systems crash after 100 to 200 (coremltools#2716)."""


@dataclass(frozen=True)
class Trial:
    """What came of running a package on a device."""

    layout: Layout
    policy: Policy
    device: str
    reason: str = ""
    """Why it must not be used; "" where it may."""
    load_seconds: float = 0.0
    """Seconds to compile and load it, the first time."""
    reload_seconds: float = 0.0
    """Seconds to load it again."""
    prefill_seconds: float = 0.0
    """Seconds for a prompt of one chunk."""
    decode_seconds: float = 0.0
    """The median of the steps of one token, in seconds."""
    error: float = 0.0
    """The mean distance of the logits from the reference's, in standard deviations of them."""
    placement: dict[str, float] = field(default_factory=dict)
    """Each device's share of the work, as the runtime plans it; empty where it does not tell."""


# In the parent


def try_out(
    folder: Path,
    package: Package,
    device: str,
    *,
    module: str,
    limit: float = LIMIT,
    on_beat: Callable[[], object] = lambda: None,
) -> Trial:
    """Run a trial in a child process with the runtime of the given module, and say what came of it."""
    arguments = [str(folder), package.layout, package.policy, device, module]
    here = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-P", "-m", "backends.coreml.trial", *arguments]

    def failed(reason: str) -> Trial:
        return Trial(package.layout, package.policy, device, reason)

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=complaints, env=environment
        ) as process:
            in_time = ends_in_time(process, limit, on_beat)
            process.kill()
        output.seek(0)
        told = list(lines(output.read()))
        stage = ["starting", *(line["stage"] for line in told if "stage" in line)][-1]
        if not in_time:
            return failed(f"it hung while {stage}: no end after {limit:.0f} s")
        if process.returncode == 0 and told and "report" in told[-1]:
            return Trial(**told[-1]["report"])
        complaints.seek(0)
        return failed(f"it crashed while {stage} ({cause(process.returncode, complaints.read())})")


def ends_in_time(process: "subprocess.Popen[bytes]", limit: float, on_beat: Callable[[], object]) -> bool:
    """Wait for a process to end, up to `limit` seconds."""
    end = time.monotonic() + limit
    while (left := end - time.monotonic()) > 0:
        try:
            process.wait(min(BEAT, left))
            return True
        except subprocess.TimeoutExpired:
            on_beat()
    return False


def lines(output: bytes) -> Iterator[dict[str, Any]]:  # Any: parsed JSON
    """The JSON objects among the lines that a child has printed."""
    for line in output.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # printed by the system
        if isinstance(found, dict):
            yield found


def cause(code: int, complaints: bytes) -> str:
    """Why a child ended."""
    if code < 0:
        return signal.Signals(-code).name
    words = complaints.decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"exit code {code}"


# In the child


def tell(**what: object) -> None:
    """Print a line for the parent, at once."""
    print(json.dumps(what), flush=True)


def run(folder: Path, package: Package, device: str, used: Runtime) -> Trial:
    """Load, compare logits, time, and go on for a while."""
    tell(stage="compiling and loading")
    start = time.perf_counter()
    session = Session(folder, package, used.open_functions(folder, package, device), device=device)
    load_seconds = time.perf_counter() - start
    tell(stage="computing logits")
    reason, error = compared(session, folder)
    if reason:
        return Trial(package.layout, package.policy, device, reason, load_seconds, error=error)
    tell(stage="loading again")
    start = time.perf_counter()
    session = Session(folder, package, used.open_functions(folder, package, device), device=device)
    reload_seconds = time.perf_counter() - start
    prefill_seconds, decode_seconds = timed(session)
    tell(stage="reading the compute plan")
    try:
        placement = used.placement(folder, package, device)
    except BackendError:
        placement = {}
    times = load_seconds, reload_seconds, prefill_seconds, decode_seconds
    return Trial(package.layout, package.policy, device, "", *times, error=error, placement=placement)


def compared(session: Session, folder: Path) -> tuple[str, float]:
    """Why the logits cannot be trusted, "" where they can, and their mean distance from the reference's."""
    tokens, logits = expected(folder)
    before = len(tokens) - len(logits) + 1
    found = [session.forward(tokens[None, :before])[0]]
    found += [session.forward(tokens[None, i : i + 1])[0] for i in range(before, len(tokens))]
    distance = np.abs(np.concatenate(found) - logits) / logits.std()
    mean, worst = float(distance.mean()), float(distance.max())
    if not np.isfinite(distance).all():
        return "its logits are not all finite numbers", 0.0
    if mean > MEAN or worst > WORST:
        return f"its logits are wrong: {mean:.3f} standard deviations off on average, {worst:.3f} at most", mean
    return "", mean


def timed(session: Session) -> tuple[float, float]:
    """Seconds for a prompt of one chunk, and the median of many steps."""
    chunk = min(session.lowered.chunk, session.context_length - 1)
    session.rewind(0)
    start = time.perf_counter()
    session.forward(np.zeros((1, chunk), np.int64))
    prefill_seconds, steps = time.perf_counter() - start, []
    for i in range(STEPS):
        if i % 50 == 0:
            tell(stage=f"decoding, after {i} steps")
        if session.length == session.context_length:
            session.rewind(chunk)
        start = time.perf_counter()
        session.forward(np.zeros((1, 1), np.int64))
        steps.append(time.perf_counter() - start)
    return prefill_seconds, statistics.median(steps)


def end_with_the_parent() -> None:
    """Leave when nobody waits any more: standard input is closed then."""
    os.read(0, 1)
    os._exit(1)


def main(arguments: list[str]) -> None:
    """Run the trial that the arguments describe, and print it."""
    folder, layout, policy, device, module = arguments
    package = Package(layout, policy)  # type: ignore[arg-type]  # the parent's own words
    try:
        trial = run(Path(folder), package, device, runtime(module))
    except BackendError as error:
        trial = Trial(package.layout, package.policy, device, str(error))
    tell(report=asdict(trial))


if __name__ == "__main__":
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    main(sys.argv[1:])
