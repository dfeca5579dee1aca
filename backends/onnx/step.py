"""Calls of ONNX Runtime, with inputs and outputs bound once to arrays."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import onnxruntime

from backends import BackendError, Top
from backends.onnx.caches import ends_of, layer_of, shown
from backends.sliding import Held


class Loaded(Protocol):
    """What a step needs of its session."""

    context_length: int
    vocab_size: int
    tops: int
    windows: Sequence[int]
    inputs: dict[str, Sequence[int]]
    memory: dict[str, np.ndarray]
    holds: Held
    computing: float
    runtime: onnxruntime.InferenceSession

    @property
    def sliding(self) -> bool: ...
    def adapt(self) -> None: ...
    def shapes(self, kind: str) -> dict[str, Sequence[int]]: ...
    def out_of_sight(self, length: int) -> dict[int, int]: ...
    def unused(self, *, in_bytes: bool) -> dict[str, np.ndarray]: ...
    def make_room(self, name: str, shape: tuple[int, ...]) -> np.ndarray: ...


class Step:
    """A call of one shape, (rows, count), bound once to its arrays."""

    def __init__(
        self,
        session: Loaded,
        cache: Mapping[str, np.ndarray],
        states: dict[str, np.ndarray],
        *,
        unseen: dict[int, int],
        count: int = 1,
        last: int = 1,
    ):
        """Bind the caches and states of some rows; `unseen` has how many first tokens each window hides."""
        batch = len(next(iter({**cache, **states}.values())))
        self.runtime, self.binding = session.runtime, session.runtime.io_binding()
        self.logits: np.ndarray = np.empty((batch, last, session.vocab_size), np.float32)
        self.tokens, self.positions = np.empty((batch, count), np.int64), np.empty((batch, count), np.int64)
        self.rope_positions = np.empty((batch, count), np.int64)
        self.feeds = dict(
            tokens=self.tokens,
            positions=self.positions,
            rope_positions=self.rope_positions,
            last=np.array([last]),
        )
        self.unseen = unseen
        self.ends = {window: (np.empty(batch, np.int32), np.empty(1, np.int32)) for window in self.unseen}
        """For each window, the newest token's place in each row's cache, and the longest row's length."""
        for window, ends in self.ends.items():
            self.feeds |= zip(ends_of(window), ends, strict=True)
        shape = batch, last, session.tops
        self.top: Top = Top(np.empty(shape, np.int64), np.empty(shape, np.float32))
        self.bind(session, cache, states)

    def bind(self, session: Loaded, cache: Mapping[str, np.ndarray], states: dict[str, np.ndarray]) -> None:
        """Bind all inputs and outputs to arrays; present caches and new states are written over the old ones."""
        wrap = onnxruntime.OrtValue.ortvalue_from_numpy
        self.binding.bind_ortvalue_output("logits", wrap(self.logits))
        self.binding.bind_ortvalue_output("top_tokens", wrap(self.top.tokens))
        self.binding.bind_ortvalue_output("top_logits", wrap(self.top.logits))
        first = [self.unseen[window] for window in session.windows]
        caches = {name: shown(values, first[layer_of(name)]) for name, values in cache.items()}
        others = session.unused(in_bytes=any(name.startswith("bytes_") for name in cache))
        arrays = self.feeds | caches | session.memory | others | states
        for name in session.inputs:
            value = wrap(arrays[name])
            self.binding.bind_ortvalue_input(name, value)
            if name in cache:
                present = name.replace("past_", "present_").replace("bytes_", "present_bytes_")
                self.binding.bind_ortvalue_output(present, value)
            if name in states:  # in place: each operation reads the old state before it writes
                self.binding.bind_ortvalue_output("new_" + name, value)

    def run(self, tokens: np.ndarray, past: np.ndarray | int, first_row: int = 0) -> None:
        """Run the graph on `tokens` after `past` cached ones; (rows, 1) where rows differ.

        Rotary positions are rows of their table, counted from `first_row`.
        """
        self.tokens[:] = tokens
        self.positions[:] = past + np.arange(tokens.shape[1])
        np.add(self.positions, first_row, out=self.rope_positions)
        newest = self.positions[:, -1]
        longest = max(newest.tolist()) + 1
        for window, (last_position, total_length) in self.ends.items():
            last_position[:] = newest - self.unseen[window]
            total_length[:] = longest - self.unseen[window]
        self.call()

    def call(self) -> None:
        """Run the graph on the current contents of the arrays."""
        try:
            self.runtime.run_with_iobinding(self.binding)
        except Exception as error:  # inlined `foreign`, which takes two microseconds per token
            raise BackendError(f"ONNX Runtime failed: {error}") from error
