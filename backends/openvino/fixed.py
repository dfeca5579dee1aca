"""Run a lowered decoder where every shape must be fixed, as on an NPU: padded parts, caches kept here."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import openvino
from openvino import PartialShape, Tensor, Type
from openvino import opset15 as op

from backends import BackendError, check_call, check_parents, check_rewind
from backends.openvino.runtime import compile_model, infer, placement, properties, read_facts
from backends.openvino.session import HIDDEN

CHUNK = 64
"""Tokens of a prompt that are read at once."""
LARGEST = 4096
"""Tokens that the cache holds at most: each step reads all of it."""


class FixedSession:
    """A loaded decoder: one graph for a part of a prompt, one for a single token."""

    top = None
    whole_prompts = False

    def __init__(self, folder: Path, device: str):
        facts = read_facts(folder)
        if facts.start_token is not None:
            raise BackendError(f"OpenVINO cannot run an encoder-decoder on the {device} yet; choose the device cpu")
        self.context_length, self.vocab_size = min(facts.context_length, LARGEST), facts.vocab_size
        self.requests: dict[int, openvino.InferRequest] = {}
        for count in (CHUNK, 1):
            change = partial(fix, count=count, capacity=self.context_length)
            name = f"{device.lower()}-{count}"
            compiled = compile_model(folder, device, properties(device, facts), name=name, change=change)
            self.requests[count] = compiled.create_infer_request()
        self.placement = placement(compiled, facts)
        inputs = {port.any_name: tuple(port.shape) for port in compiled.inputs}
        self.shapes = {name: shape for name, shape in inputs.items() if name.startswith("past_")}
        self.length = 0
        self.cache = self.empty(0)
        """Keys and values by name, each (B, kv_heads, context_length, head_dim)."""

    @property
    def batch(self) -> int:
        return len(next(iter(self.cache.values()))) if self.length else 0

    def empty(self, rows: int) -> dict[str, np.ndarray]:
        return {name: np.zeros((rows, *shape[1:]), np.float32) for name, shape in self.shapes.items()}

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if not self.length:
            self.cache = self.empty(batch)
        logits = np.empty((batch, last, self.vocab_size), np.float32)
        for row in range(batch):
            start = 0
            while start < count:
                alone = count - last < start or count - start == 1
                end = start + 1 if alone else min(start + CHUNK, count - last + 1)
                found = self.step(row, tokens[row, start:end], self.length + start)
                if end > count - last:
                    logits[row, end - 1 - (count - last)] = found
                start = end
        self.length += count
        return logits

    def step(self, row: int, tokens: np.ndarray, past: int) -> np.ndarray:
        """Read `tokens` (n,), padded in front, after `past` cached ones; the logits of the last one, (vocab,)."""
        size = 1 if len(tokens) == 1 else CHUNK
        pad, total = size - len(tokens), past + len(tokens)
        positions = np.concatenate([np.zeros(pad, np.int64), np.arange(past, total)])
        cached = np.where(np.arange(self.context_length) < past, np.arange(self.context_length), HIDDEN)
        key_positions = np.concatenate([cached, np.full(pad, HIDDEN), positions[pad:]])
        feeds = dict(tokens=np.pad(tokens, (pad, 0))[None], positions=positions, key_positions=key_positions)
        request = self.requests[size]
        for name, buffer in self.cache.items():
            request.set_tensor(name, Tensor(buffer[row : row + 1], shared_memory=True))
        infer(request, feeds)
        for name, buffer in self.cache.items():
            buffer[row, :, past:total] = request.get_tensor(name.replace("past_", "new_")).data[0, :, pad:]
        logits: np.ndarray = request.get_tensor("logits").data[0, 0]
        return logits

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self.length = length

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(self, parents)
        self.cache = {name: buffer[list(parents)] for name, buffer in self.cache.items()}


def fix(model: openvino.Model, count: int, capacity: int) -> None:
    """Let a lowered decoder read `count` tokens of one row, with caches as inputs `past_...` and outputs `new_...`."""
    inputs = {node.get_friendly_name(): node for node in model.get_parameters()}
    inputs["wanted"].output(0).replace(op.constant(np.array([count - 1])).output(0))
    for assign in model.get_sinks():
        name = assign.get_variable_id()
        whole = assign.input_value(0).get_node()  # the cached ones, gathered by `parents`, and the new ones
        past, new = whole.input_value(0), whole.input_value(1)
        _, heads, _, head_dim = past.get_partial_shape()
        shape = PartialShape([1, heads, capacity, head_dim])
        parameter = op.parameter(shape, Type.f32, name=f"past_{name}")
        parameter.output(0).get_tensor().set_names({f"past_{name}"})
        past.replace(parameter.output(0))
        result = op.result(op.convert(new, Type.f32))
        result.input_value(0).get_tensor().set_names({f"new_{name}"})
        model.add_parameters([parameter])
        model.add_results([result])
        model.remove_sink(assign)
    for name in ("parents", "wanted"):
        model.remove_parameter(inputs[name])
    model.reshape({"tokens": [1, count], "positions": [count], "key_positions": [capacity + count]})
