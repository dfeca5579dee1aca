"""Run a lowered decoder: functions of fixed length, and what hides them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backends import BackendError, Placement, check_call, check_parents, check_rewind
from backends.coreml.inputs import Inputs, Package
from backends.coreml.packages import contents
from backends.coreml.rows import Arrays, Row, new_row
from backends.coreml.runtime import Functions


class Session:
    """A loaded decoder; every row has a cache of its own, since the functions take one row."""

    top, whole_prompts = None, False

    def __init__(self, folder: Path, package: Package, functions: Functions, *, device: str):
        found = contents(folder)
        self.lowered, self.package, self.functions = found.lowered, package, functions
        self.inputs = Inputs(found.lowered, package, found.tables)
        self.context_length = found.lowered.decoder.context_length
        self.vocab_size = found.lowered.decoder.vocab_size
        self.placement = Placement("coreml", device, found.lowered.precision)
        self.length = 0
        self.rows: list[Row] = []

    @property
    def batch(self) -> int:
        return len(self.rows) if self.length else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if batch != len(self.rows):
            self.rows = [new_row(self.lowered, self.package, self.functions) for _ in range(batch)]
        logits = np.stack([self.extend(row, each, last) for row, each in zip(self.rows, tokens, strict=True)])
        self.length += count
        return logits

    def extend(self, row: Row, tokens: np.ndarray, last: int) -> np.ndarray:
        """Append `tokens` (n,) to a row and return the logits (last, vocab) of the last ones.

        Only a step of one token has logits; those before are read a chunk at a time, the last chunk padded, where
        the cache has room for a whole one.
        """
        chunk, at, silent = self.lowered.chunk, 0, len(tokens) - last
        while silent - at > 1 and self.length + at + chunk <= self.lowered.capacity:
            part = tokens[at : min(at + chunk, silent)]
            self.call(row, part, self.length + at, chunk)
            at += len(part)
        steps = [self.call(row, tokens[i : i + 1], self.length + i, 1) for i in range(at, len(tokens))]
        return np.stack([self.logits(step) for step in steps[-last:]])

    def call(self, row: Row, tokens: np.ndarray, start: int, count: int) -> Arrays:
        """Append `tokens` (n,) at position `start` with the function for `count` of them."""
        function = self.functions.decode if count == 1 else self.functions.prefill
        try:
            return row.step(function, self.inputs.arrays(tokens, start, count), start, len(tokens))
        except BackendError:
            raise
        except Exception as error:  # coremltools has no base class of its own errors
            raise BackendError(f"Core ML failed: {error}") from error

    def logits(self, outputs: Arrays) -> np.ndarray:
        """The logits (vocab,) of a decoding step, joined where the head was cut."""
        count = sum(name.startswith("logits_") for name in outputs)
        return np.concatenate([np.asarray(outputs[f"logits_{i}"], np.float32).ravel() for i in range(count)])

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self.length = length

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(self, parents)
        rows: list[Row] = []
        for i, parent in enumerate(parents):
            row = self.rows[parent]
            rows.append(row.copy(self.length) if parent in parents[:i] else row)
        self.rows = rows
