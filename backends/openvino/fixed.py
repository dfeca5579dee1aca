"""Run a lowered decoder where all shapes must be fixed, as on an NPU: padded inputs, caches kept on the host."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import openvino
from openvino import Tensor, Type
from openvino import opset15 as op

from backends.cached import CachedSession
from backends.openvino.nodes import integers, named, parameter
from backends.openvino.runtime import UNSEEN, compile_model, infer, placement, properties, read_facts
from backends.openvino.session import HIDDEN, only_decoder, only_encoder

CHUNK = 64
"""Tokens of a prompt read per call."""
LARGEST = 4096
"""Most tokens in the cache, which every step reads in full; LongRoPE's border limits it too."""


class FixedSession(CachedSession):
    """A loaded decoder: one graph for a part of a prompt, one for a single token.

    A third graph, for an encoder, reads each prompt as a whole, padded.
    """

    def __init__(self, folder: Path, device: str):
        facts, name = read_facts(folder), device.lower()
        self.whole_prompts = facts.start_token is not None
        self.start_token = facts.start_token or 0
        self.context_length = min(facts.context_length, LARGEST, facts.border or LARGEST)
        self.vocab_size = facts.vocab_size

        config, capacity = properties(device, facts), self.context_length

        def load(part: object, change: Callable[[openvino.Model], None]) -> openvino.InferRequest:
            compiled = compile_model(folder, device, config, name=f"{name}-{part}", change=change)
            return compiled.create_infer_request()

        self.requests = {count: load(count, partial(fix, count=count, capacity=capacity)) for count in (CHUNK, 1)}
        if self.whole_prompts:
            self.encoder = load("encoder", partial(fix_encoder, capacity=capacity))
        compiled = self.requests[1].get_compiled_model()
        self.placement = placement(compiled, facts)
        inputs = {port.any_name: tuple(port.shape) for port in compiled.inputs}
        self.shapes = {name: shape for name, shape in inputs.items() if name.startswith("past_")}
        self.cache = self.empty(0)
        """Keys and values by name, each (B, kv_heads, context_length, head_dim)."""
        self.memory: dict[str, np.ndarray] = {}
        """The encoder's keys and values of the prompt, by the decoder's names for them."""

    def empty(self, rows: int) -> dict[str, np.ndarray]:
        return {name: np.zeros((rows, *shape[1:]), np.float32) for name, shape in self.shapes.items()}

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        if not self.cached:
            self.cache = self.empty(batch)
        logits = np.empty((batch, last, self.vocab_size), np.float32)
        for row in range(batch):
            start = 0
            while start < count:
                alone = count - last < start or count - start == 1
                end = start + 1 if alone else min(start + CHUNK, count - last + 1)
                found = self.step(row, tokens[row, start:end], self.cached + start)
                if end > count - last:
                    logits[row, end - 1 - (count - last)] = found
                start = end
        return logits

    def read(self, prompt: np.ndarray) -> None:
        """Let the encoder read prompts (B, n), padded at their ends."""
        count = prompt.shape[1]
        padding = self.context_length - count
        hidden = np.where(np.arange(self.context_length) < count, 0, UNSEEN).astype(np.float32)[None, None, None]
        found: dict[str, list[np.ndarray]] = {}
        for tokens in np.pad(prompt, ((0, 0), (0, padding))):
            infer(self.encoder, {"prompt": tokens[None], "prompt_mask": hidden})
            for port in self.encoder.model_outputs:
                name = port.any_name.replace("read_", "memory_")
                found.setdefault(name, []).append(self.encoder.get_tensor(port).data[0].copy())
        self.memory = {name: np.stack(rows) for name, rows in found.items()}
        self.memory["prompt_mask"] = np.repeat(hidden, len(prompt), axis=0)

    def step(self, row: int, tokens: np.ndarray, past: int) -> np.ndarray:
        """Read `tokens` (n,), padded in front, after `past` cached ones; returns the last one's logits (vocab,)."""
        size = 1 if len(tokens) == 1 else CHUNK
        pad, total = size - len(tokens), past + len(tokens)
        positions = np.concatenate([np.zeros(pad, np.int64), np.arange(past, total)])
        cached = np.where(np.arange(self.context_length) < past, np.arange(self.context_length), HIDDEN)
        key_positions = np.concatenate([cached, np.full(pad, HIDDEN), positions[pad:]])
        feeds = dict(tokens=np.pad(tokens, (pad, 0))[None], positions=positions, key_positions=key_positions)
        request = self.requests[size]
        for name, buffer in (self.cache | self.memory).items():
            request.set_tensor(name, Tensor(buffer[row : row + 1], shared_memory=True))
        infer(request, feeds)
        for name, buffer in self.cache.items():
            buffer[row, :, past:total] = request.get_tensor(name.replace("past_", "new_")).data[0, :, pad:]
        logits: np.ndarray = request.get_tensor("logits").data[0, 0]
        return logits

    def take_rows(self, parents: list[int]) -> None:
        self.cache, self.memory = (
            {name: buffer[parents] for name, buffer in kept.items()} for kept in (self.cache, self.memory)
        )


def fix(model: openvino.Model, count: int, capacity: int) -> None:
    """Fix a lowered decoder's shapes: `count` tokens of one row, caches as inputs `past_...` and outputs `new_...`."""
    inputs = {node.get_friendly_name(): node for node in model.get_parameters()}
    sizes = {"tokens": [1, count], "positions": [count], "key_positions": [capacity + count]}
    if "prompt" in inputs:
        only_decoder(model)
        hide_padding(model, capacity)
        for name, node in inputs.items():
            if name.startswith("memory_"):
                _, heads, _, head_dim = node.get_partial_shape()
                sizes[name] = [1, heads.get_length(), capacity, head_dim.get_length()]
    inputs["wanted"].output(0).replace(integers(count - 1).output(0))
    for assign in model.get_sinks():
        name = assign.get_variable_id()
        whole = assign.input_value(0).get_node()  # the cached ones, gathered by `parents`, with the new ones
        past, new = whole.input_value(0), whole.input_value(1)
        _, heads, _, head_dim = past.get_partial_shape()
        given = parameter(f"past_{name}", Type.f32, 1, heads.get_length(), capacity, head_dim.get_length())
        past.replace(given.output(0))
        model.add_parameters([given])
        model.add_results([op.result(named(op.convert(new, Type.f32), f"new_{name}"))])
        model.remove_sink(assign)
    if "long" in inputs:  # the context ends at the border, so never
        inputs["long"].output(0).replace(integers(0).output(0))
    for name in {"parents", "wanted", "long"} & set(inputs):
        model.remove_parameter(inputs[name])
    model.reshape(sizes)


def fix_encoder(model: openvino.Model, capacity: int) -> None:
    """Leave only the encoder, for one prompt of `capacity` tokens."""
    only_encoder(model)
    hide_padding(model, capacity)
    model.reshape({"prompt": [1, capacity]})


def hide_padding(model: openvino.Model, capacity: int) -> None:
    """Add an input `prompt_mask` (1, 1, 1, capacity), added to the scores of the prompt's keys."""
    hidden = parameter("prompt_mask", Type.f32, 1, 1, 1, capacity)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "ScaledDotProductAttention":
            mask = node.input_value(3)
            if mask.get_node().get_type_name() != "Select":  # which masks what was written before
                node.input(3).replace_source_output(op.add(mask, hidden).output(0))
    model.add_parameters([hidden])
