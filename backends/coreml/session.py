"""Run a lowered decoder: functions of fixed length, and what hides them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from backends import BackendError, Placement, check_call, check_parents, check_rewind
from backends.coreml.inputs import Inputs, Package
from backends.coreml.packages import contents
from backends.coreml.rows import Arrays, Row, new_row
from backends.coreml.runtime import Functions


@contextmanager
def failures() -> Iterator[None]:
    """Turn what coremltools raises into a BackendError."""
    try:
        yield
    except BackendError:
        raise
    except Exception as error:  # coremltools has no base class of its own errors
        raise BackendError(f"Core ML failed: {error}") from error


class Session:
    """A loaded decoder; every row has a cache of its own, since the functions take one row."""

    top = None

    def __init__(self, folder: Path, package: Package, functions: Functions, *, device: str):
        found = contents(folder)
        self.lowered, self.package, self.functions = found.lowered, package, functions
        self.inputs = Inputs(found.lowered, package, found.tables)
        self.context_length = found.lowered.decoder.context_length
        self.vocab_size = found.lowered.decoder.vocab_size
        self.placement = Placement("coreml", device, found.lowered.precision)
        self.whole_prompts = bool(found.lowered.decoder.encoder)
        self.length = self.prompt = 0
        """Tokens in every row; those of them that an encoder has read."""
        self.rows: list[Row] = []

    @property
    def batch(self) -> int:
        return len(self.rows) if self.length else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if self.whole_prompts and not self.length:
            return self.read(tokens)
        if batch != len(self.rows):
            self.rows = [new_row(self.lowered, self.package, self.functions, {}) for _ in range(batch)]
        logits = np.stack([self.extend(row, each, last) for row, each in zip(self.rows, tokens, strict=True)])
        self.length += count
        return logits

    def read(self, prompts: np.ndarray) -> np.ndarray:
        """Let the encoder read `prompts` (batch, n), and return the logits (batch, 1, vocab) of the first answer."""
        encode = self.functions.encode
        assert encode  # there is one where there is an encoder
        with failures():
            memories = [encode.predict(self.inputs.prompt(prompt)) for prompt in prompts]
        self.rows = [new_row(self.lowered, self.package, self.functions, memory) for memory in memories]
        self.prompt, start = prompts.shape[1], np.array([self.lowered.decoder.start_token])
        try:
            logits = np.stack([self.extend(row, start, 1) for row in self.rows])
            self.length = self.prompt
        finally:
            self.prompt = self.length  # none, if that failed
        return logits

    @property
    def cached(self) -> int:
        """Tokens in every row's cache: with an encoder, the start token and the answer."""
        return self.length - self.prompt + 1 if self.prompt and self.length else self.length

    def extend(self, row: Row, tokens: np.ndarray, last: int) -> np.ndarray:
        """Append `tokens` (n,) to a row and return the logits (last, vocab) of the last ones.

        Only a step of one token has logits; those before are read a chunk at a time, the last chunk padded, where
        the cache has room for a whole one.
        """
        chunk, at, silent, past = self.lowered.chunk, 0, len(tokens) - last, self.cached
        while silent - at > 1 and past + at + chunk <= self.lowered.capacity:
            part = tokens[at : min(at + chunk, silent)]
            self.call(row, part, past + at, chunk)
            at += len(part)
        steps = [self.call(row, tokens[i : i + 1], past + i, 1) for i in range(at, len(tokens))]
        return np.stack([self.logits(step) for step in steps[-last:]])

    def call(self, row: Row, tokens: np.ndarray, start: int, count: int) -> Arrays:
        """Append `tokens` (n,) at position `start` with the function for `count` of them."""
        function = self.functions.decode if count == 1 else self.functions.prefill
        with failures():
            return row.step(function, self.inputs.arrays(tokens, start, count, self.prompt), start, len(tokens))

    def logits(self, outputs: Arrays) -> np.ndarray:
        """The logits (vocab,) of a decoding step, joined where the head was cut."""
        count = sum(name.startswith("logits_") for name in outputs)
        return np.concatenate([np.asarray(outputs[f"logits_{i}"], np.float32).ravel() for i in range(count)])

    def rewind(self, length: int) -> None:
        check_rewind(self, length, self.prompt)
        self.length = length
        self.prompt = self.prompt if length else 0

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(self, parents)
        rows: list[Row] = []
        for i, parent in enumerate(parents):
            row = self.rows[parent]
            rows.append(row.copy(self.cached) if parent in parents[:i] else row)
        self.rows = rows
