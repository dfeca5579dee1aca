"""ONNX Runtime: fused operations on the processor, caches in buffers shared by past and present."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends import BackendError, Session, telemetry
from backends.prebuilt import read
from backends.versions import version

if TYPE_CHECKING:
    from backends.decoder import Decoder, Weights

telemetry.silence()  # before any module of this package imports the runtime


def devices() -> list[str]:
    """["cpu"] where ONNX Runtime is installed."""
    return ["cpu"] if find_spec("onnxruntime") else []


def missing() -> str:
    """Why it cannot run; "" if it can."""
    return "" if find_spec("onnxruntime") else "onnxruntime is not installed; run: pip install onnxruntime"


GRAPH = 12
"""Raised with every change of what `lower` writes."""


def signature() -> str:
    """The version of graph and runtime, and the processor, for which matrices are packed ahead of time."""
    from backends.processor import processor

    return f"graph {GRAPH}, onnxruntime {version('onnxruntime')}, {processor()}"


def lower(decoder: "Decoder", weights: "Weights", folder: Path, *, precision: str) -> None:
    """Write the graph of `decoder` to `folder`, one weight in memory at a time, and pack it for this processor."""
    from backends.onnx import lowering  # needs the onnx package, which running does not
    from backends.quantize import PRECISIONS, Rounded

    lowering.lower(decoder, Rounded(weights, PRECISIONS[precision]), folder, precision)


def carrier(precision: str) -> str:
    """The type that holds f16 and microscaling formats, for which ONNX Runtime has no kernels; "" for others."""
    from backends.quantize import PRECISIONS

    if precision == "f16":
        return "f32"
    known = PRECISIONS[precision]
    return {4: "int4", 8: "int8", 16: "the sum of int8 and int4"}[known.bits] if known.format else ""


def load(folder: Path, *, device: str = "cpu") -> Session:
    """Open a lowered decoder, or one exported by other programs."""
    from backends.onnx.prebuilt import PrebuiltSession
    from backends.onnx.session import Session as OnnxSession
    from backends.recurrent import RecurrentSession
    from backends.rereading import rereading
    from backends.sliding import SlidingSession

    if device != "cpu":
        raise BackendError(f"onnx has only the device cpu here, not {device!r}")
    if exported := read(folder):
        return PrebuiltSession(exported)
    session = OnnxSession(folder)
    if session.shapes("state_"):
        return RecurrentSession(session)
    return SlidingSession(session) if session.sliding else rereading(session)
