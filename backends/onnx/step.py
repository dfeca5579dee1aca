"""Calls of ONNX Runtime, bound once to the arrays that they read and write."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import onnxruntime

from backends import BackendError, Top
from backends.onnx.caches import ends_of, layer_of, shown
from backends.sliding import Held


class Loaded(Protocol):
    """The session whose graph and weights steps use, its own and those of the batches beside it."""

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
    """One shape of call, bound once to its arrays."""

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
        """With the caches and the states of some rows; `unseen` tokens of a cache are left out, by its window."""
        batch = len(next(iter(cache.values())))
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
        """By window: where the newest token of each row lies in a cache, and up to where there are any."""
        for window, ends in self.ends.items():
            self.feeds |= zip(ends_of(window), ends, strict=True)
        wrap = onnxruntime.OrtValue.ortvalue_from_numpy
        self.binding.bind_ortvalue_output("logits", wrap(self.logits))
        shape = batch, last, session.tops
        self.top: Top = Top(np.empty(shape, np.int64), np.empty(shape, np.float32))
        self.binding.bind_ortvalue_output("top_tokens", wrap(self.top.tokens))
        self.binding.bind_ortvalue_output("top_logits", wrap(self.top.logits))
        first = [unseen[window] for window in session.windows]
        caches = {name: shown(values, first[layer_of(name)]) for name, values in cache.items()}
        others = session.unused(in_bytes=next(iter(cache)).startswith("bytes_"))
        arrays = self.feeds | caches | session.memory | others | states
        for name in session.inputs:
            value = wrap(arrays[name])
            self.binding.bind_ortvalue_input(name, value)
            if name in cache:
                present = name.replace("past_", "present_").replace("bytes_", "present_bytes_")
                self.binding.bind_ortvalue_output(present, value)
            if name in states:  # each operation reads the old one before it writes
                self.binding.bind_ortvalue_output("new_" + name, value)

    def run(self, tokens: np.ndarray, past: np.ndarray | int, first_row: int = 0) -> None:
        """Run the graph on `tokens` after `past` cached ones, or (rows, 1), where each row has cached others.

        Rotary positions are from `first_row` of their table on.
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
        """Run the graph on what the arrays hold now."""
        try:
            self.runtime.run_with_iobinding(self.binding)
        except Exception as error:  # as `foreign` does, which takes two microseconds of each token
            raise BackendError(f"ONNX Runtime failed: {error}") from error
