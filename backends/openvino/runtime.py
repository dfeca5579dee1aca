"""Compile a lowered decoder with the properties that suit it, and keep what was compiled."""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import openvino

from backends import BackendError, Placement
from backends.errors import foreign
from backends.processor import cores
from backends.quantize import PRECISIONS

CACHED = 1 << 29
"""Bytes of weights up to which a compiled model is kept on disk: it holds them again."""
WEIGHTS = "model.bin"
"""The file beside a graph."""
IN_FLOAT32 = "computed-in-float32"
"""The file beside a graph that says that timing has found float32 quicker than bfloat16, the plugin's choice."""
KERNELS = 100
"""Kernels kept by the processor's plugin, and by oneDNN below it, one for each shape.

Both would keep a thousand and more, and what reads prompts of ever other lengths grows by a megabyte with every few.
"""
UNSEEN = -65504.0
"""What is added to the score of a key that must not be seen: the lowest float16."""
PLACE = re.compile(r"(Exception from|Check '.*' failed at) \S+:\d+:")
"""Where in the runtime's sources something went wrong."""
Properties = dict[str, object]


@dataclass(frozen=True)
class Facts:
    """What a session must know about a lowered decoder."""

    context_length: int
    vocab_size: int
    precision: str
    start_token: int | None
    """What stands before an answer where an encoder reads the prompt."""
    layers: list[tuple[int, list[float]]] | None
    """The window and the ALiBi slopes of each layer, where caches can be pages."""
    border: int
    """Tokens up to which a text is read as a short one; 0 where all are alike."""
    grouped: bool = False
    """Whether heads share keys."""


def read_facts(folder: Path) -> Facts:
    """The facts that `lower` has written."""
    try:
        return Facts(**json.loads((folder / "facts.json").read_text()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BackendError(f"OpenVINO cannot load {folder}: {error}; delete the folder") from error


def chooses_bfloat16(folder: Path) -> bool:
    """Whether the processor's plugin computes a decoder with pages in bfloat16: weights are integers, and it can."""
    able = runtime().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return PRECISIONS[read_facts(folder).precision].bits < 16 and "BF16" in able


def properties(device: str, facts: Facts, *, pages: bool = False, in_float32: bool = False) -> Properties:
    """How a device should compute; `pages` tells that caches are pages, not states of the model."""
    chosen: Properties = {"PERFORMANCE_HINT": "LATENCY"}  # all of the device for one request
    processor, rounded = device == "CPU", facts.precision != "f32"
    quick = pages and PRECISIONS[facts.precision].bits < 16
    if not rounded or in_float32 or (processor and not quick):
        chosen["INFERENCE_PRECISION_HINT"] = "f32"  # where it can, the plugin computes in 16 bits otherwise
    if processor:
        if cores():
            chosen["INFERENCE_NUM_THREADS"] = cores()  # a second thread on the same core slows the first
        chosen["ENABLE_CPU_PINNING"] = False  # a thread bound to a core waits for whoever else works there
        # Pages in bytes are half the traffic of pages in 16 bits: up to a fifth faster after 900 tokens where each head
        # has keys of its own, and a tenth slower after 3,900 where heads share them. Where rows read several tokens at
        # once, the plugin of 2026.4 gives wrong logits with states in bytes, and with any states while it computes in
        # bfloat16.
        in_bytes = quick and not facts.grouped
        chosen["KV_CACHE_PRECISION"] = "u8" if in_bytes else "f16" if rounded else "f32"
        chosen["CPU_RUNTIME_CACHE_CAPACITY"] = KERNELS
        # Activations that share a scale by 128 are multiplied a quarter faster than by 32, the default.
        chosen["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 128 if rounded else 0
    return chosen


@cache
def runtime() -> openvino.Core:
    """The runtime, one for all models of this process and never released.

    The processor's plugin of 2026.4 gives a thread another stack for signals. Of two that are released in the order in
    which they were made, the second puts back the stack of the first, which is gone: the next Ctrl+C would be a crash.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
    return openvino.Core()


def compile_model(
    folder: Path, device: str, config: Properties, *, name: str, change: Callable[[openvino.Model], None] | None = None
) -> openvino.CompiledModel:
    """The model in `folder` for a device, after a `change`, from its cache `name` if that is there and fits.

    Without a name nothing is kept.
    The runtime itself compiles anew what is truncated or was written by another version or for another processor.
    It can also keep caches without their weights, but what the processor's plugin of 2026.4 reads from those is wrong.
    """
    kept_at = folder / f"compiled-{name}"
    with foreign(f"OpenVINO cannot load {folder} on {device}", reason):
        core = runtime()
        model = folder / "model.xml"
        if change:
            model = core.read_model(model)
            change(model)
        kept = name and (folder / WEIGHTS).stat().st_size <= CACHED and can_hold(kept_at)
        compiled = core.compile_model(model, device, config | ({"CACHE_DIR": str(kept_at)} if kept else {}))
        if kept and not compiled.get_property("LOADED_FROM_CACHE"):
            keep_newest(kept_at)
        return compiled


def can_hold(cache: Path) -> bool:
    """Whether there is a folder `cache`, made now if need be: one can do without."""
    with suppress(OSError):
        cache.mkdir(exist_ok=True)
        return True
    return False


def keep_newest(cache: Path) -> None:
    """Delete what was compiled for other properties."""
    with suppress(OSError):  # Windows keeps what another process has open
        written = sorted(cache.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in written[:-1]:
            path.unlink(missing_ok=True)


def reason(error: Exception) -> str:
    """What an exception of the runtime says, without the places in its sources."""
    return " ".join(PLACE.sub("", str(error)).split()) or repr(error)


def infer(request: openvino.InferRequest, feeds: Mapping[str, np.ndarray]) -> None:
    """Compute the outputs from inputs by name, which are copied."""
    with foreign("OpenVINO failed", reason):
        for name, values in feeds.items():
            request.set_tensor(name, openvino.Tensor(values))
        request.infer()


def placement(compiled: openvino.CompiledModel, facts: Facts) -> Placement:
    """Where a compiled model runs, as the runtime tells."""
    devices = ", ".join(compiled.get_property("EXECUTION_DEVICES")).lower()
    computed = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    exact = facts.precision == "f32"
    return Placement("openvino", devices, computed if exact else facts.precision)
