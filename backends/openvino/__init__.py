"""OpenVINO: Intel's processors, graphics and NPUs, with caches that stay in the runtime."""

import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends import BackendError, Session, telemetry
from backends.prebuilt import read
from backends.versions import version

if TYPE_CHECKING:
    from backends.decoder import Decoder, Weights

GRAPH = 5
"""Raised with every change of what `lower` writes."""
KINDS = ("CPU", "GPU", "NPU")
"""Devices in the order in which they are offered."""
ACCELERATORS = Path("/dev/dri"), Path("/dev/accel")
"""Where Linux lists graphics and NPUs."""
PAGING = "2026.4."
"""Versions known to have PagedAttention, an operation outside of all opsets."""

telemetry.silence()  # before any module of this package imports the runtime


@cache
def devices() -> list[str]:
    """The processor first, then what the runtime finds; none where OpenVINO is not installed."""
    if missing():
        return []
    if sys.platform == "linux" and not any(path.exists() for path in ACCELERATORS):
        return ["cpu"]  # known without loading the runtime

    from backends.openvino.runtime import runtime

    found = runtime().available_devices
    return [name.lower() for kind in KINDS for name in sorted(found) if name.partition(".")[0] == kind]


def missing() -> str:
    """Why it cannot run; "" if it can."""
    return "" if find_spec("openvino") else "openvino is not installed; run: pip install openvino"


def signature() -> str:
    """The versions of graph and runtime; what depends on the processor is checked at load."""
    return f"graph {GRAPH}, openvino {version('openvino')}"


def lower(decoder: "Decoder", weights: "Weights", folder: Path, *, precision: str) -> None:
    """Write the graph of `decoder` to `folder`."""
    from backends.openvino import lowering
    from backends.quantize import PRECISIONS, Rounded

    lowering.lower(decoder, Rounded(weights, PRECISIONS[precision]), folder, precision)


def carrier(precision: str) -> str:
    """The type that holds a microscaling format; "" for mxfp4, which OpenVINO itself knows, and for integers."""
    from backends.quantize import PRECISIONS

    known = PRECISIONS[precision]
    return {4: "int4", 8: "int8", 16: "f32"}[known.bits] if known.format not in ("", "mxfp4") else ""


def list_types(folder: Path, *, device: str) -> list[str]:
    """The types that the decoder in `folder` can be computed in, the plugin's own first; "" without a choice."""
    from backends.openvino.runtime import chooses_bfloat16

    return ["bf16", "f32"] if not read(folder) and has_pages(folder, device) and chooses_bfloat16(folder) else [""]


def compute_in(folder: Path, kind: str) -> None:
    """Compute in one of these types whenever `folder` is loaded from now on."""
    from backends.openvino.runtime import IN_FLOAT32

    mark = folder / IN_FLOAT32
    with suppress(OSError):  # a folder that is only read
        mark.touch() if kind == "f32" else mark.unlink(missing_ok=True)


def has_pages(folder: Path, device: str) -> bool:
    """Whether the caches of the decoder in `folder` are pages."""
    from backends.openvino.runtime import read_facts

    return device == "cpu" and bool(read_facts(folder).layers) and version("openvino").startswith(PAGING)


def load(folder: Path, *, device: str = "cpu") -> Session:
    """Open a lowered decoder and warm it up, or one exported by other programs.

    An NPU needs fixed shapes; on a processor caches are paged where possible.
    """
    usable = devices()
    if device not in usable:
        raise BackendError(f"openvino has no device {device!r} here; choose from {', '.join(usable) or 'none'}")

    if exported := read(folder):
        from backends.openvino.prebuilt import PrebuiltSession

        return PrebuiltSession(exported, device.upper())
    if device.startswith("npu"):
        from backends.openvino.fixed import FixedSession

        return FixedSession(folder, device.upper())
    from backends.rereading import rereading
    from backends.sliding import SlidingSession

    if has_pages(folder, device):
        from backends.openvino.paged import PagedSession

        session = PagedSession(folder, device.upper())
        return SlidingSession(session) if session.sliding else rereading(session)
    from backends.openvino.session import StatefulSession

    return rereading(StatefulSession(folder, device.upper()))
