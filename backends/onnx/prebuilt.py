"""Run a decoder exported by optimum or transformers.js: caches are inputs and outputs of each call."""

import re
from math import prod
from pathlib import Path

import numpy as np
import onnxruntime

from backends import BackendError, Placement
from backends.cached import CachedSession
from backends.errors import foreign
from backends.onnx.session import ALONE, open_runtime
from backends.prebuilt import PRECISION, Facts, Prebuilt, check_inputs

PAST = re.compile(r"past_key_values\.(\d+)\.(key|value)")
REQUIRED = {"input_ids"}
KNOWN = {"attention_mask", "position_ids", "use_cache_branch", "num_logits_to_keep"}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class PrebuiltSession(CachedSession):
    """An exported decoder."""

    def __init__(self, export: Prebuilt):
        graph = Path(export.graph)
        self.runtime = open_runtime(graph, ALONE)
        inputs = {one.name: one for one in self.runtime.get_inputs()}
        self.past = {name: one for name, one in inputs.items() if PAST.fullmatch(name)}
        check_inputs(graph, set(inputs) - set(self.past), REQUIRED, KNOWN)
        outputs = {one.name: one for one in self.runtime.get_outputs()}
        self.presents = [name.replace("past_key_values", "present") for name in self.past]
        if not self.past or not {"logits", *self.presents} <= outputs.keys():
            raise BackendError(
                f"{graph} has no caches (past_key_values, present), so it cannot continue a text; use an "
                "export with a cache (text-generation-with-past)"
            )
        for name, one in self.past.items():
            if one.type not in TYPES or len(one.shape) != 4 or not all(isinstance(one.shape[i], int) for i in (1, 3)):
                raise BackendError(f"{graph} has the cache {name} of {one.type} {one.shape}, which is not supported")
        if not isinstance(outputs["logits"].shape[-1], int):
            raise BackendError(f"{graph} does not state the size of its vocabulary")
        self.inputs = set(inputs)
        self.context_length, self.vocab_size = export.context_length, outputs["logits"].shape[-1]
        self.placement = Placement("onnx", "cpu", PRECISION)
        self.cache: list[onnxruntime.OrtValue] = []

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        wrap = onnxruntime.OrtValue.ortvalue_from_numpy
        if not self.cached:
            self.cache = [
                wrap(np.zeros((batch, one.shape[1], 0, one.shape[3]), TYPES[one.type])) for one in self.past.values()
            ]
        total = self.cached + count
        given = {
            "input_ids": np.ascontiguousarray(tokens, np.int64),
            "attention_mask": np.ones((batch, total), np.int64),
            "position_ids": np.tile(np.arange(self.cached, total), (batch, 1)),
            "use_cache_branch": np.array([True]),
            "num_logits_to_keep": np.array(last),
        }
        feeds = {name: wrap(values) for name, values in given.items() if name in self.inputs}
        feeds |= dict(zip(self.past, self.cache, strict=True))
        with foreign("ONNX Runtime failed"):
            logits, *self.cache = self.runtime.run_with_ort_values(["logits", *self.presents], feeds)
        return np.asarray(logits.numpy()[:, -last:], np.float32)

    def rewind(self, length: int) -> None:
        before = self.length
        super().rewind(length)
        if length < before:
            self.change(np.s_[:, :, :length])

    def take_rows(self, parents: list[int]) -> None:
        self.change(np.s_[parents])

    def change(self, part: object) -> None:
        """Index every cache with `part`."""
        wrap = onnxruntime.OrtValue.ortvalue_from_numpy
        self.cache = [wrap(np.ascontiguousarray(value.numpy()[part])) for value in self.cache]


def inspect(export: Prebuilt) -> Facts:
    """Read an export's facts; raises BackendError if it cannot be run."""
    import onnx

    session = PrebuiltSession(export)
    graph = onnx.load(export.graph, load_external_data=False).graph
    sizes = {one.name: prod(one.dims) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMulNBits":  # two and more weights to a byte
            how = {one.name: one.i for one in node.attribute}
            sizes[node.input[1]] = how["N"] * how["K"]
            sizes |= {name: 0 for name in node.input[2:4]}
    return Facts(sum(sizes.values()), session.vocab_size)
