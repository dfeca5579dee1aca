"""Run a decoder exported by optimum-intel or by OpenVINO's repositories: caches are states of the runtime."""

from math import prod
from pathlib import Path

import numpy as np

from backends import BackendError, Placement
from backends.cached import CachedSession
from backends.errors import foreign
from backends.openvino.runtime import infer, reason, runtime
from backends.prebuilt import PRECISION, Facts, Prebuilt, check_inputs

REQUIRED = {"input_ids", "attention_mask", "beam_idx"}
KNOWN = {"position_ids"}
SMALL = 1024
"""Constants of up to this many numbers do not count as weights."""


class PrebuiltSession(CachedSession):
    """An exported decoder; rewound tokens stay in the runtime's cache, masked."""

    def __init__(self, export: Prebuilt, device: str):
        graph = Path(export.graph)
        with foreign(f"OpenVINO cannot read {graph}", reason):
            core = runtime()
            model = core.read_model(graph)
        known = REQUIRED | KNOWN
        self.inputs = {min(known & port.get_names(), default=port.any_name) for port in model.inputs}
        check_inputs(graph, self.inputs, REQUIRED, KNOWN)
        if not model.get_sinks() or "logits" not in {name for port in model.outputs for name in port.get_names()}:
            raise BackendError(f"{graph} has no states or no logits; export it with --task text-generation-with-past")
        width = model.output("logits").get_partial_shape()[-1]
        if width.is_dynamic:
            raise BackendError(f"{graph} does not state the size of its vocabulary")
        with foreign(f"OpenVINO cannot load {graph} on {device}", reason):
            self.request = core.compile_model(model, device, properties(device)).create_infer_request()
        self.context_length, self.vocab_size = export.context_length, int(width.get_length())
        self.placement = Placement("openvino", device.lower(), PRECISION)
        self.seen = np.empty(0, np.int64)
        """Whether each token in the runtime's cache is visible."""
        self.parents = np.zeros(1, np.int32)
        """The row of the runtime's cache that each row continues."""

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        if not self.cached:
            self.request.reset_state()
            self.seen, self.parents = self.seen[:0], np.arange(batch, dtype=np.int32)
        seen = np.concatenate([self.seen, np.ones(count, np.int64)])
        total = self.cached + count
        given = {
            "input_ids": np.ascontiguousarray(tokens, np.int64),
            "attention_mask": np.tile(seen, (batch, 1)),
            "position_ids": np.tile(np.arange(self.cached, total), (batch, 1)),
            "beam_idx": self.parents,
        }
        infer(self.request, {name: given[name] for name in self.inputs})
        self.seen, self.parents = seen, np.arange(batch, dtype=np.int32)
        return np.asarray(self.request.get_tensor("logits").data[:, -last:], np.float32)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        visible = np.flatnonzero(self.seen)
        self.seen[visible[length:]] = 0

    def take_rows(self, parents: list[int]) -> None:
        self.parents = self.parents[parents]


def properties(device: str) -> dict[str, str]:
    """A device's properties: on a processor those of `runtime.properties` for 16-bit weights and states."""
    chosen = {"PERFORMANCE_HINT": "LATENCY"}
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f16"}
    return chosen | (exact if device == "CPU" else {})


def inspect(export: Prebuilt) -> Facts:
    """Read an export's facts; raises BackendError if it cannot be run."""
    session = PrebuiltSession(export, "CPU")
    weights = (
        prod(node.get_output_shape(0))
        for node in runtime().read_model(export.graph).get_ops()
        if node.get_type_name() == "Constant"
    )
    return Facts(sum(size for size in weights if size > SMALL), session.vocab_size)
