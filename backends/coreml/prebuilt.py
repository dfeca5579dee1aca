"""Run a Core ML package exported by other programs: its states keep the text, or it is read anew for each token."""

from pathlib import Path

import numpy as np

from backends import Placement
from backends.coreml import contract
from backends.coreml.contract import Array, Contract
from backends.coreml.inputs import MASKED
from backends.coreml.runtime import Function, Functions, runtime
from backends.coreml.session import RowsSession, StateRow
from backends.errors import foreign
from backends.prebuilt import PRECISION, Facts, Prebuilt

CHUNK = 64
"""Most tokens of a prompt per call, since all of them get logits."""


class Caller:
    """Calls a package's function."""

    def __init__(self, contract: Contract, function: Function):
        self.contract, self.function = contract, function

    def call(self, tokens: np.ndarray, start: int, wanted: int, row: StateRow | None = None) -> np.ndarray:
        """Call on `tokens` (n,) at position `start`; returns the logits (n, vocab), or (1, vocab) of `wanted`."""
        count = max(len(tokens), self.contract.shortest)
        given = {
            name: values(one, tokens, start=start, count=count, wanted=wanted)
            for name, one in self.contract.inputs.items()
        }
        with foreign("Core ML failed"):
            found = row.step(self.function, given, start, count) if row else self.function.predict(given)
        logits = np.asarray(found[self.contract.logits], np.float32).reshape(-1, self.contract.vocab_size)
        return logits[: len(tokens)]


def values(one: Array, tokens: np.ndarray, *, start: int, count: int, wanted: int) -> np.ndarray:
    """The value of an input for `tokens` (n,) at position `start`, padded to `count`."""
    total, keys = start + len(tokens), one.last[0] if one.fixed else start + count
    positions = np.arange(start, start + count)
    if one.role == "tokens":
        found = np.concatenate([tokens, np.zeros(count - len(tokens), tokens.dtype)])[None]
    elif one.role == "wanted":
        found = np.array([wanted])
    elif one.role == "positions":
        found = (positions[:1] if one.last == (1, 1) else positions).reshape([1] * (len(one.sizes) - 1) + [-1])
    elif len(one.sizes) == 2:
        found = (np.arange(keys) < total)[None]
    else:
        found = np.where(np.arange(keys) <= positions[:, None], 0, MASKED)[None, None]
    return np.ascontiguousarray(found, np.int32 if one.whole_numbers else np.float32)


class Kept:
    """A row whose keys and values are states of the runtime."""

    def __init__(self, caller: Caller, row: StateRow):
        self.caller, self.row = caller, row

    def extend(self, tokens: np.ndarray, start: int, last: int) -> np.ndarray:
        """Read `tokens` (n,) at position `start`; returns the logits (last, vocab) of the last ones."""
        contract, count, at = self.caller.contract, len(tokens), 0
        found = np.empty((0, contract.vocab_size), np.float32)
        while at < count:
            size = min(contract.longest, max(CHUNK, contract.shortest))
            if not contract.every:  # so that each token that needs logits ends a call
                size = min(size, max(1, count - last - at + 1))
            part = tokens[at : at + size]
            found = np.concatenate([found, self.caller.call(part, start + at, len(part) - 1, self.row)])[-last:]
            at += len(part)
        return found

    def copy(self, length: int) -> "Kept":
        """A copy with the first `length` tokens."""
        return Kept(self.caller, self.row.copy(length))


class Repeated:
    """A row that is read from the beginning for every token that is appended."""

    def __init__(self, caller: Caller, tokens: np.ndarray):
        self.caller, self.tokens = caller, tokens

    def extend(self, tokens: np.ndarray, start: int, last: int) -> np.ndarray:
        whole = np.concatenate([self.tokens[:start], tokens])
        total = len(whole)
        if self.caller.contract.every:
            logits = self.caller.call(whole, 0, total - 1)[-last:]
        else:
            ends = range(total - last + 1, total + 1)
            logits = np.concatenate([self.caller.call(whole[:end], 0, end - 1) for end in ends])
        self.tokens = whole
        return logits

    def copy(self, length: int) -> "Repeated":
        return Repeated(self.caller, self.tokens[:length])


class PrebuiltSession(RowsSession[Kept | Repeated]):
    """An exported decoder; rows are computed one by one."""

    def __init__(self, export: Prebuilt, function: Function, *, device: str):
        found = contract.read(Path(export.graph))
        self.caller = Caller(found, function)
        self.context_length, self.vocab_size = min(export.context_length, found.capacity), found.vocab_size
        self.placement = Placement("coreml", device, PRECISION)
        self.rows = []

    def new_row(self) -> Kept | Repeated:
        """An empty row."""
        function, states = self.caller.function, self.caller.contract.states
        if not states:
            return Repeated(self.caller, np.empty(0, np.int64))
        with foreign("Core ML failed"):
            return Kept(self.caller, StateRow(Functions(function, function), states))

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        if len(tokens) != len(self.rows):
            self.rows = [self.new_row() for _ in tokens]
        return np.stack([row.extend(each, self.cached, last) for row, each in zip(self.rows, tokens, strict=True)])


def open_session(export: Prebuilt, folder: Path, device: str, *, module: str) -> PrebuiltSession:
    """Open a package, compiled to `folder` the first time; nothing verifies on which device it runs."""
    function = runtime(module).open_export(Path(export.graph), folder, device)
    return PrebuiltSession(export, function, device=f"{device} (not confirmed)")


def inspect(export: Prebuilt) -> Facts:
    """Read an export's facts; raises BackendError if it cannot be run."""
    found = contract.read(Path(export.graph))
    return Facts(found.parameters, found.vocab_size, found.capacity)
