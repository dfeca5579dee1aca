"""Core ML: Apple's Neural Engine, graphics and processors; packages are tried on the machine before use."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends import BackendError, Progress
from backends.prebuilt import read
from backends.versions import version

if TYPE_CHECKING:
    from backends.coreml.prebuilt import PrebuiltSession
    from backends.coreml.session import Session
    from backends.decoder import Decoder, Weights

GRAPH = 2
"""Raised with every change of what `lower` writes."""
OLDEST = 15
"""The first macOS that has states."""
NEWEST = 13
"""The last Python 3 that coremltools supports."""


def devices() -> list[str]:
    """The Neural Engine, where the Mac has one, its graphics and its processor; none where `missing` says why."""
    if missing():
        return []
    return ["npu", "gpu", "cpu"] if platform.machine() == "arm64" else ["gpu", "cpu"]


def missing() -> str:
    """Why there are no devices; "" where there are."""
    if sys.platform != "darwin":
        return "Core ML needs macOS"
    release = platform.mac_ver()[0]
    if int(release.partition(".")[0] or 0) < OLDEST:
        return f"Core ML needs macOS {OLDEST} or newer, and this is {release}"
    if not find_spec("coremltools"):
        if sys.version_info >= (3, NEWEST + 1):
            return f"coremltools does not support this Python; install chatapp with Python 3.{NEWEST}"
        return "coremltools is not installed; run: pip install coremltools"
    return ""


def signature() -> str:
    """The versions of graph, coremltools, and macOS, for which packages are compiled and tried."""
    return f"graph {GRAPH}, coremltools {version('coremltools')}, macOS {platform.mac_ver()[0] or 'none'}"


def lower(decoder: "Decoder", weights: "Weights", folder: Path, *, precision: str) -> None:
    """Write every package that may run on a Mac to `folder`; works on any system."""
    from backends.coreml import packages

    packages.lower(decoder, weights, folder, precision_name=precision)


def carrier(precision: str) -> str:
    """The type that holds formats whose numbers are too large for int8: float16; "" for others."""
    from backends.quantize import PRECISIONS

    known = PRECISIONS[precision]
    return {4: "int4", 8: "int8", 16: "f16"}[known.bits] if known.format else ""


def prepare(folder: Path, *, device: str, on_progress: Progress | None = None) -> None:
    """Try the packages for a device, each in a process of its own, unless that was done."""
    refuse_unknown(device)
    if read(folder):
        return  # exported by other programs: there are no logits to compare with

    from backends.coreml.choice import recorded, trials

    if device not in recorded(folder):
        trials(folder, device, on_progress=on_progress)


def load(folder: Path, *, device: str = "npu") -> "Session | PrebuiltSession":
    """Open the best package for a device, which takes minutes the first time, or one exported by other programs."""
    refuse_unknown(device)

    from backends.coreml.choice import CORE_ML, open_session

    if found := read(folder):
        from backends.coreml.prebuilt import open_session as open_prebuilt

        return open_prebuilt(found, folder, device, module=CORE_ML)

    return open_session(folder, device)


def refuse_unknown(device: str) -> None:
    """Raise BackendError for a device that this machine lacks."""
    usable = devices()
    if device not in usable:
        reason = missing() or f"choose from {', '.join(usable)}"
        raise BackendError(f"coreml has no device {device!r} here: {reason}")
