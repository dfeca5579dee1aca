"""A session whose decoder another model of the server computes: its caches go in as inputs and come out as outputs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from backends import Placement
from backends.cached import CachedSession

FACTS = "facts.json"
Compute = Callable[[Mapping[str, np.ndarray], Sequence[str]], Sequence[np.ndarray]]
"""Gives the outputs of these names for inputs by name."""


@dataclass(frozen=True)
class Facts:
    """What a session must know about the decoder."""

    context_length: int
    vocab_size: int
    layers: list[tuple[int, int, int]]
    """Of each that has keys of its own its number, its key-value heads and their size."""
    runtime: str
    precision: str

    def write(self, folder: Path) -> None:
        """Keep them in a folder."""
        (folder / FACTS).write_text(json.dumps(asdict(self)), "utf-8")


def read_facts(folder: Path) -> Facts:
    """The facts that an export has written."""
    return Facts(**json.loads((folder / FACTS).read_text("utf-8")))


class RemoteSession(CachedSession):
    """A decoder with the caches here.

    Each begins with a place that is never seen, for no server takes tensors without a number for granted.
    """

    def __init__(self, facts: Facts, compute: Compute):
        self.facts, self.compute = facts, compute
        self.context_length, self.vocab_size = facts.context_length, facts.vocab_size
        self.placement = Placement(facts.runtime, "server", facts.precision)
        self.caches = dict[str, np.ndarray]()

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        if not self.cached:
            self.caches = empty_caches(self.facts.layers, len(tokens))
        feeds = {**token_inputs(tokens, self.cached, last), **self.caches}
        presents = [name.replace("past_key_values", "present") for name in self.caches]
        logits, *found = self.compute(feeds, ["logits", *presents])
        self.caches = dict(zip(self.caches, found, strict=True))
        return np.asarray(logits, np.float32)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.caches = {name: cache[:, :, : length + 1] for name, cache in self.caches.items()}

    def take_rows(self, parents: list[int]) -> None:
        self.caches = {name: cache[parents] for name, cache in self.caches.items()}


def empty_caches(layers: Sequence[tuple[int, int, int]], batch: int) -> dict[str, np.ndarray]:
    """The caches of no tokens: a place that the mask hides."""
    return {
        f"past_key_values.{i}.{kind}": np.zeros((batch, heads, 1, size), np.float32)
        for i, heads, size in layers
        for kind in ("key", "value")
    }


def token_inputs(tokens: np.ndarray, before: int, last: int = 1) -> dict[str, np.ndarray]:
    """Tokens (batch, count) behind so many others, as the graph takes them."""
    batch, count = tokens.shape
    mask = np.ones((batch, 1 + before + count), np.int64)
    mask[:, 0] = 0
    return {
        "input_ids": np.ascontiguousarray(tokens, np.int64),
        "attention_mask": mask,
        "position_ids": np.tile(np.arange(before, before + count, dtype=np.int64), (batch, 1)),
        "last": np.array([last], np.int64),
    }
