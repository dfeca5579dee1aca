"""Run a lowered decoder's functions, hiding their fixed lengths."""

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from backends import Placement
from backends.cached import CachedSession
from backends.coreml.inputs import KINDS, Inputs, Package, stacked_shape
from backends.coreml.packages import contents
from backends.coreml.runtime import Function, Functions
from backends.errors import foreign

Arrays = dict[str, np.ndarray]


class Copied(Protocol):
    """One row's cache."""

    def copy(self, length: int) -> Self:
        """A copy with the first `length` tokens."""


Row = TypeVar("Row", bound=Copied)


class StateRow:
    """A row whose keys and values are states of the runtime."""

    def __init__(self, functions: Functions, names: Sequence[str]):
        self.functions, self.names = functions, names
        self.state = functions.prefill.make_state()

    def step(self, function: Function, inputs: Arrays, start: int, count: int) -> Arrays:
        """Call a function that appends `count` tokens at position `start`; returns its outputs."""
        return function.predict(inputs, self.state)

    def copy(self, length: int) -> "StateRow":
        twin = StateRow(self.functions, self.names)
        for name in self.names:
            twin.state.write_state(name, self.state.read_state(name))
        return twin


class HostRow:
    """A row whose keys and values are arrays of the host, (layers, kv_heads, capacity, head_dim) each.

    They are float32, since coremltools would convert float16 at every step.
    """

    def __init__(self, shape: tuple[int, ...], memory: Arrays):
        self.past = {kind: np.zeros(shape, np.float32) for kind in KINDS}
        self.memory = memory
        """The encoder's keys and values, (layers, kv_heads, prompt, head_dim), by input name."""

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


class RowsSession(CachedSession, Generic[Row]):
    """A session whose rows each have a cache of their own, since functions take one row."""

    rows: list[Row]
    rows_apart = True

    def take_rows(self, parents: list[int]) -> None:
        self.rows = [
            self.rows[parent].copy(self.cached) if parent in parents[:i] else self.rows[parent]
            for i, parent in enumerate(parents)
        ]


class Session(RowsSession[StateRow | HostRow]):
    """A loaded decoder."""

    def __init__(self, folder: Path, package: Package, functions: Functions, *, device: str):
        found = contents(folder)
        self.lowered, self.package, self.functions = found.lowered, package, functions
        self.inputs = Inputs(found.lowered, package, found.tables)
        self.context_length = found.lowered.decoder.context_length
        self.vocab_size = found.lowered.decoder.vocab_size
        self.placement = Placement("coreml", device, found.lowered.precision)
        self.whole_prompts = bool(found.lowered.decoder.encoder)
        self.start_token = found.lowered.decoder.start_token
        self.prompt = 0
        """Tokens that the encoder has read."""
        self.rows = []

    def new_row(self, memory: Arrays) -> StateRow | HostRow:
        """An empty row, with the encoder's keys and values in `memory`."""
        layers = self.lowered.decoder.layers
        if self.package.policy == "io":
            return HostRow(stacked_shape(layers, self.lowered.capacity), memory)
        return StateRow(self.functions, [f"{kind}_{i}" for i in range(len(layers)) for kind in KINDS])

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        if len(tokens) != len(self.rows):
            self.rows = [self.new_row({}) for _ in tokens]
        return np.stack([self.extend_row(row, each, last) for row, each in zip(self.rows, tokens, strict=True)])

    def read(self, prompt: np.ndarray) -> None:
        encode = self.functions.encode
        assert encode  # every model with an encoder has it
        with foreign("Core ML failed"):
            memories = [encode.predict(self.inputs.prompt(each)) for each in prompt]
        self.rows = [self.new_row(memory) for memory in memories]
        self.prompt = prompt.shape[1]

    def extend_row(self, row: StateRow | HostRow, tokens: np.ndarray, last: int) -> np.ndarray:
        """Append `tokens` (n,) to a row and return the logits (last, vocab) of the last ones.

        Only steps of one token have logits; earlier tokens are read a chunk at a time, the last chunk padded if the
        cache has room.
        """
        chunk, at, silent, past = self.lowered.chunk, 0, len(tokens) - last, self.cached
        while silent - at > 1 and past + at + chunk <= self.lowered.capacity:
            part = tokens[at : min(at + chunk, silent)]
            self.call(row, part, past + at, chunk)
            at += len(part)
        steps = [self.call(row, tokens[i : i + 1], past + i, 1) for i in range(at, len(tokens))]
        return np.stack([self.logits(step) for step in steps[-last:]])

    def call(self, row: StateRow | HostRow, tokens: np.ndarray, start: int, count: int) -> Arrays:
        """Append `tokens` (n,) at position `start`, with the function for `count` tokens."""
        function = self.functions.decode if count == 1 else self.functions.prefill
        with foreign("Core ML failed"):
            return row.step(function, self.inputs.arrays(tokens, start, count, self.prompt), start, len(tokens))

    def logits(self, outputs: Arrays) -> np.ndarray:
        """The logits (vocab,) of a decoding step, from the head's pieces."""
        count = sum(name.startswith("logits_") for name in outputs)
        return np.concatenate([np.asarray(outputs[f"logits_{i}"], np.float32).ravel() for i in range(count)])
