"""Try a package on a device in a child process, which may crash or hang without harm.

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
"""Time limit of a trial in seconds; preparing a large model for the Neural Engine takes minutes."""
BEAT = 5.0
"""Seconds between calls of `on_beat`."""
MEAN, WORST = 0.05, 0.5
"""The mean and largest error of logits that is accepted, in standard deviations of the reference's."""
STEPS = 256
"""Decoding steps of a trial; some systems crash after 100 to 200 (coremltools#2716)."""


@dataclass(frozen=True)
class Trial:
    """The result of running a package on a device."""

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
    """The median time of a decoding step, in seconds."""
    error: float = 0.0
    """The mean error of the logits, in standard deviations of the reference's."""
    placement: dict[str, float] = field(default_factory=dict)
    """Each device's share of the work, as the runtime plans it; empty if it does not tell."""


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
    """Run a trial in a child process, with the runtime of the given module."""
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
            return failed(f"it hung while {stage}: not finished after {limit:.0f} s")
        if process.returncode == 0 and told and "report" in told[-1]:
            return Trial(**told[-1]["report"])
        complaints.seek(0)
        return failed(f"it crashed while {stage} ({cause(process.returncode, complaints.read())})")


def ends_in_time(process: "subprocess.Popen[bytes]", limit: float, on_beat: Callable[[], object]) -> bool:
    """Wait up to `limit` seconds for a process to end; returns whether it did."""
    end = time.monotonic() + limit
    while (left := end - time.monotonic()) > 0:
        try:
            process.wait(min(BEAT, left))
            return True
        except subprocess.TimeoutExpired:
            on_beat()
    return False


def lines(output: bytes) -> Iterator[dict[str, Any]]:  # Any: parsed JSON
    """The JSON objects among the lines that a child printed."""
    for line in output.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # printed by the system
        if isinstance(found, dict):
            yield found


def cause(code: int, complaints: bytes) -> str:
    """Why a child ended, for messages."""
    if code < 0:
        return signal.Signals(-code).name
    words = complaints.decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"exit code {code}"


# In the child


def tell(**what: object) -> None:
    """Print a line for the parent at once."""
    print(json.dumps(what), flush=True)


def run(folder: Path, package: Package, device: str, used: Runtime) -> Trial:
    """Load, compare logits, measure times, and run many steps."""
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
    """Compare logits: why they are wrong, "" if they are not, and their mean error."""
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
    """The time for a prompt of one chunk, and the median time of many steps, in seconds."""
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
    """Exit when the parent has gone, which closes standard input."""
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
