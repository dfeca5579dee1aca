"""A session whose decoder another Triton model computes: caches are passed in as inputs and come back as outputs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from backends import Placement
from backends.cached import CachedSession

FACTS = "facts.json"
Compute = Callable[[Mapping[str, np.ndarray], Sequence[str]], Sequence[np.ndarray]]
"""Computes the outputs of these names from inputs by name."""


@dataclass(frozen=True)
class Facts:
    """What a session must know about the decoder."""

    context_length: int
    vocab_size: int
    layers: list[tuple[int, int, int]]
    """For each layer with a cache: index, key-value heads, head size."""
    runtime: str
    precision: str

    def write(self, folder: Path) -> None:
        """Write them to a folder."""
        (folder / FACTS).write_text(json.dumps(asdict(self)), "utf-8")


def read_facts(folder: Path) -> Facts:
    """The facts written by an export."""
    return Facts(**json.loads((folder / FACTS).read_text("utf-8")))


class RemoteSession(CachedSession):
    """A decoder whose caches are kept here.

    Each cache begins with a masked position, since not every server accepts empty tensors.
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
    """Caches without tokens: one masked position."""
    return {
        f"past_key_values.{i}.{kind}": np.zeros((batch, heads, 1, size), np.float32)
        for i, heads, size in layers
        for kind in ("key", "value")
    }


def token_inputs(tokens: np.ndarray, before: int, last: int = 1) -> dict[str, np.ndarray]:
    """The graph's inputs for tokens (batch, count) after `before` others."""
    batch, count = tokens.shape
    mask = np.ones((batch, 1 + before + count), np.int64)
    mask[:, 0] = 0
    return {
        "input_ids": np.ascontiguousarray(tokens, np.int64),
        "attention_mask": mask,
        "position_ids": np.tile(np.arange(before, before + count, dtype=np.int64), (batch, 1)),
        "last": np.array([last], np.int64),
    }
