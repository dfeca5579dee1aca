"""Compile lowered decoders with suitable properties, and cache the compiled models."""

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
"""Models with up to this many bytes of weights are cached on disk, with another copy of them."""
WEIGHTS = "model.bin"
"""The name of the weights' file."""
IN_FLOAT32 = "computed-in-float32"
"""The file beside a graph that says that timing has found float32 quicker than bfloat16, the plugin's choice."""
KERNELS = 100
"""Kernels that the processor's plugin caches, and oneDNN below it, one for each shape.

Their defaults, over a thousand, let memory grow by a megabyte with every few new prompt lengths."""
UNSEEN = -65504.0
"""Added to the score of a hidden key: the lowest float16."""
PLACE = re.compile(r"(Exception from|Check '.*' failed at) \S+:\d+:")
"""Places in the runtime's sources, which its errors mention."""
Properties = dict[str, object]


@dataclass(frozen=True)
class Facts:
    """What a session must know of a lowered decoder."""

    context_length: int
    vocab_size: int
    precision: str
    start_token: int | None
    """With an encoder, the token before the answer's first one; None without."""
    layers: list[tuple[int, list[float]]] | None
    """The window and ALiBi slopes of each layer, where caches can be paged."""
    border: int
    """LongRoPE: texts up to this many tokens are short; 0: there is no difference."""
    grouped: bool = False
    """Whether heads share keys."""


def read_facts(folder: Path) -> Facts:
    """Read the facts that `lower` wrote."""
    try:
        return Facts(**json.loads((folder / "facts.json").read_text()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BackendError(f"OpenVINO cannot load {folder}: {error}; delete the folder") from error


def chooses_bfloat16(folder: Path) -> bool:
    """Whether the processor's plugin computes a decoder with pages in bfloat16: weights are integers, and it can."""
    able = runtime().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return PRECISIONS[read_facts(folder).precision].bits < 16 and "BF16" in able


def properties(device: str, facts: Facts, *, pages: bool = False, in_float32: bool = False) -> Properties:
    """The properties for a device; `pages`: caches are paged, not states of the model."""
    chosen: Properties = {"PERFORMANCE_HINT": "LATENCY"}  # for a single request
    processor, rounded = device == "CPU", facts.precision != "f32"
    quick = pages and PRECISIONS[facts.precision].bits < 16
    if not rounded or in_float32 or (processor and not quick):
        chosen["INFERENCE_PRECISION_HINT"] = "f32"  # otherwise the plugin computes in 16 bits where it can
    if processor:
        if cores():
            chosen["INFERENCE_NUM_THREADS"] = cores()  # a second thread per core slows the first
        chosen["ENABLE_CPU_PINNING"] = False  # a pinned thread waits for whoever else runs on its core
        # int8 pages halve the traffic of 16-bit pages: up to a fifth faster after 900 tokens where each head has keys
        # of its own, and a tenth slower after 3,900 where heads share them. With int8 states, and with any states in
        # bfloat16, the plugin of 2026.4 gives wrong logits where rows read several tokens at once.
        in_bytes = quick and not facts.grouped
        chosen["KV_CACHE_PRECISION"] = "u8" if in_bytes else "f16" if rounded else "f32"
        chosen["CPU_RUNTIME_CACHE_CAPACITY"] = KERNELS
        # With activation groups of 128, products are a quarter faster than with the default 32.
        chosen["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 128 if rounded else 0
    return chosen


@cache
def runtime() -> openvino.Core:
    """The runtime, one for the whole process, which is never released.

    The processor's plugin of 2026.4 gives a thread another stack for signals. When two runtimes are released in the
    order in which they were made, the second restores the stack of the first, which is gone, and the next Ctrl+C
    crashes.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
    return openvino.Core()


def compile_model(
    folder: Path, device: str, config: Properties, *, name: str, change: Callable[[openvino.Model], None] | None = None
) -> openvino.CompiledModel:
    """Compile the model in `folder` after a `change`, through the on-disk cache `name`, or without one if that is "".

    The runtime itself recompiles if the cache is truncated, or was written by another version or for another processor.
    It could also cache models without their weights, but what the processor's plugin of 2026.4 reads from those is
    wrong.
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
    """Whether the folder `cache` exists or can be made; caching is optional."""
    with suppress(OSError):
        cache.mkdir(exist_ok=True)
        return True
    return False


def keep_newest(cache: Path) -> None:
    """Delete models that were compiled for other properties."""
    with suppress(OSError):  # Windows cannot delete what another process has open
        written = sorted(cache.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in written[:-1]:
            path.unlink(missing_ok=True)


def reason(error: Exception) -> str:
    """An exception's message, without places in the runtime's sources."""
    return " ".join(PLACE.sub("", str(error)).split()) or repr(error)


def infer(request: openvino.InferRequest, feeds: Mapping[str, np.ndarray]) -> None:
    """Run a request with inputs by name, which are copied."""
    with foreign("OpenVINO failed", reason):
        for name, values in feeds.items():
            request.set_tensor(name, openvino.Tensor(values))
        request.infer()


def placement(compiled: openvino.CompiledModel, facts: Facts) -> Placement:
    """Where a compiled model runs, as the runtime reports it."""
    devices = ", ".join(compiled.get_property("EXECUTION_DEVICES")).lower()
    computed = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    exact = facts.precision == "f32"
    return Placement("openvino", devices, computed if exact else facts.precision)
