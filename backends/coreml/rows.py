"""The host's side of a cache: one row of tokens, and how it grows by a step."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from backends.coreml.inputs import KINDS, Lowered, Package, stacked_shape
from backends.coreml.runtime import Function, Functions

Arrays = dict[str, np.ndarray]


class Row(Protocol):
    """Keys and values of one row."""

    def step(self, function: Function, inputs: Arrays, start: int, count: int) -> Arrays:
        """Call a function that appends `count` tokens at position `start`, and return what it returns."""

    def copy(self, length: int) -> "Row":
        """A row of its own with the same first `length` tokens."""


class StateRow:
    """A row whose keys and values are states of the runtime."""

    def __init__(self, functions: Functions, names: Sequence[str]):
        self.functions, self.names = functions, names
        self.state = functions.prefill.make_state()

    def step(self, function: Function, inputs: Arrays, start: int, count: int) -> Arrays:
        return function.predict(inputs, self.state)

    def copy(self, length: int) -> "StateRow":
        twin = StateRow(self.functions, self.names)
        for name in self.names:
            twin.state.write_state(name, self.state.read_state(name))
        return twin


class HostRow:
    """A row whose keys and values are arrays here, (layers, kv_heads, capacity, head_dim) each.

    They are float32, as coremltools wants all numbers that it is given: float16 it would convert at every step.
    """

    def __init__(self, shape: tuple[int, ...], memory: Arrays):
        self.past = {kind: np.zeros(shape, np.float32) for kind in KINDS}
        self.memory = memory
        """What an encoder made of the prompt, (layers, kv_heads, prompt, head_dim) by input."""

    def step(self, function: Function, inputs: Arrays, start: int, count: int) -> Arrays:
        past_inputs = {f"past_{kind}s": past for kind, past in self.past.items()}
        outputs = function.predict(inputs | past_inputs | self.memory)
        for kind, past in self.past.items():
            past[:, :, start : start + count] = outputs[f"new_{kind}s"][:, :, :count]
        return outputs

    def copy(self, length: int) -> "HostRow":
        twin = HostRow(self.past["key"].shape, self.memory)
        for kind, past in self.past.items():
            twin.past[kind][:, :, :length] = past[:, :, :length]
        return twin


def new_row(lowered: Lowered, package: Package, functions: Functions, memory: Arrays) -> Row:
    """An empty row, with what an encoder made of its prompt."""
    if package.policy == "io":
        return HostRow(stacked_shape(lowered.decoder.layers, lowered.capacity), memory)
    return StateRow(functions, [f"{kind}_{i}" for i in range(len(lowered.decoder.layers)) for kind in KINDS])
