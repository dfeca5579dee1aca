"""Choose the package for a device, the fastest that passed its trial here, and record all trials."""

import json
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

from backends import BackendError, Progress
from backends.coreml.inputs import Package
from backends.coreml.packages import present
from backends.coreml.runtime import runtime
from backends.coreml.session import Session
from backends.coreml.trial import Trial, try_out

CORE_ML = "backends.coreml.device"
"""The module that runs packages on a Mac."""
MOST = 0.95
"""A device that does this share of the work is named alone."""


def open_session(folder: Path, device: str, *, module: str = CORE_ML) -> Session:
    """Open the best package for a device; the first time, trials are run."""
    best = chosen(recorded(folder).get(device) or trials(folder, device, module=module), device)
    package = Package(best.layout, best.policy)
    functions = runtime(module).open_functions(folder, package, device)
    return Session(folder, package, functions, device=described(best))


def trials(folder: Path, device: str, *, module: str = CORE_ML, on_progress: Progress | None = None) -> list[Trial]:
    """Try every package for a device, one by one, and record the results."""
    found, packages, tell = [], present(folder, device), on_progress or (lambda step, share: None)
    for i, package in enumerate(packages):
        beat = partial(tell, f"preparing {package} for {device}, once", i / len(packages))
        beat()
        found.append(try_out(folder, package, device, module=module, on_beat=beat))
    record = recorded(folder) | {device: found}
    write(folder, record)
    remove_compiled(folder, record)
    return found


def chosen(found: list[Trial], device: str) -> Trial:
    """The trial with the fastest decoding step among those without a reason against it."""
    good = [trial for trial in found if not trial.reason]
    if not good:
        why = "; ".join(f"{Package(trial.layout, trial.policy)}: {trial.reason}" for trial in found)
        raise BackendError(f"Core ML cannot run this model on {device}: {why}")
    return min(good, key=lambda trial: trial.decode_seconds)


def described(trial: Trial) -> str:
    """Where the runtime plans to run a step: one device, or several with their shares."""
    parts = sorted(trial.placement.items(), key=lambda part: -part[1])
    if not parts:
        return f"{trial.device} (not confirmed)"
    if parts[0][1] >= MOST:
        return parts[0][0]
    return ", ".join(f"{kind} {share:.0%}" for kind, share in parts if share >= 1 - MOST)


def recorded(folder: Path) -> dict[str, list[Trial]]:
    """The recorded trials of each device."""
    path = folder / "trials.json"
    if not path.exists():
        return {}
    try:
        return {device: [Trial(**facts) for facts in found] for device, found in json.loads(path.read_text()).items()}
    except (OSError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BackendError(f"{path} cannot be read ({error}); delete it to try the packages again") from error


def write(folder: Path, record: dict[str, list[Trial]]) -> None:
    """Write the record, whole or not at all."""
    temporary = folder / ".trials.json"
    facts = {device: [asdict(trial) for trial in found] for device, found in record.items()}
    temporary.write_text(json.dumps(facts, indent=2) + "\n")
    temporary.replace(folder / "trials.json")


def remove_compiled(folder: Path, record: dict[str, list[Trial]]) -> None:
    """Delete compiled packages, each as large as the model, that no device uses."""
    used = set()
    for device, found in record.items():
        if any(not trial.reason for trial in found):
            best = chosen(found, device)
            used.add(f"{Package(best.layout, best.policy)}.mlmodelc")
    for path in (folder / "compiled").glob("*.mlmodelc"):
        if path.name not in used:
            shutil.rmtree(path, ignore_errors=True)
