"""Run a lowered decoder whose caches are pages, which rows share until one of them writes there."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
from openvino import Shape, Tensor

from backends import check_call, check_parents
from backends.cached import CachedSession
from backends.openvino.paging import page
from backends.openvino.runtime import compile_model, infer, placement, properties, read_facts

FIRST_PAGES = 8
"""Pages of a new cache; it doubles when they are used up."""


class PagedSession(CachedSession):
    """A loaded decoder; rewinding and reordering only change which pages a row has."""

    def __init__(self, folder: Path, device: str):
        facts = read_facts(folder)
        change = partial(page, layers=facts.layers or ())
        # Nothing is kept: the plugin of 2026.4 cannot read its own copy of a model with such attention.
        compiled = compile_model(folder, device, properties(device, facts, pages=True), name="", change=change)
        self.request = compiled.create_infer_request()
        self.context_length, self.vocab_size = facts.context_length, facts.vocab_size
        self.placement = placement(compiled, facts)
        self.border, self.long = facts.border, False
        self.ports = {port.any_name: port for port in compiled.inputs if "_cache." in port.any_name}
        self.caches: dict[str, Tensor] = {}
        """Keys and values by name, each (pages, kv_heads, ...)."""
        self.page = self.ports["value_cache.0"].partial_shape[2].get_length()
        """Tokens that a page holds."""
        self.pages = 0
        self.rows: list[list[int]] = []
        """The pages of each row."""
        self.owned = 0
        """Tokens up to which each row has pages, and shares none that it may write to."""
        self.forward(np.zeros((1, 1), np.int64))  # packs the weights, while nobody waits yet
        held = sum(int(cache.byte_size) for cache in self.caches.values())
        self.token_bytes = held // (self.pages * self.page)
        self.rewind(0)

    @property
    def batch(self) -> int:
        return len(self.rows) if self.length else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if not self.length:
            self.rows, self.owned = [[] for _ in range(batch)], 0
        total = self.length + count
        if total > self.owned:
            self.own(total)
        ends = count * np.arange(1, batch + 1)
        feeds = {
            "tokens": tokens.reshape(1, -1),
            "positions": np.tile(np.arange(self.length, total), batch),
            "wanted": (ends[:, None] + np.arange(-last, 0)).ravel(),
            "past_lens": np.full(batch, self.length, np.int32),
            "subsequence_begins": begins(ends),
            "block_indices": np.fromiter(chain(*self.rows), np.int32),
            "block_indices_begins": begins(np.cumsum([len(row) for row in self.rows])),
            "max_context_len": np.array(total, np.int32),
        }
        if self.border:
            feeds["long"] = np.array([self.long], np.int64)
        infer(self.request, feeds)
        self.cached = total
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits.reshape(batch, last, -1)

    def own(self, total: int) -> None:
        """Give every row pages of its own for what comes after `length`, up to `total` tokens."""
        begun, needed = self.length // self.page, -(-total // self.page)
        for row in self.rows:
            del row[-(-self.length // self.page) :]  # rewound
        users = Counter(chain(*self.rows))
        most = len(self.rows) * (needed - begun)
        if self.pages - len(users) < most:
            self.grow(most)
        free = (number for number in range(self.pages) if number not in users)
        copies = {}
        for row in self.rows:
            if len(row) > begun and users[row[begun]] > 1:  # others read what is there
                users[row[begun]] -= 1
                copied, row[begun] = row[begun], next(free)
                copies[row[begun]] = copied
            row += islice(free, needed - len(row))
        for cache in self.caches.values() if copies else ():
            cache.data[list(copies)] = cache.data[list(copies.values())]
        self.owned = needed * self.page

    def grow(self, more: int) -> None:
        """Make room for so many pages more, or for twice as many as before."""
        pages = self.pages + max(more, self.pages, FIRST_PAGES)
        for name, port in self.ports.items():
            _, *shape = port.partial_shape
            cache = Tensor(port.element_type, Shape([pages, *(size.get_length() for size in shape)]))
            cache.data[self.pages :] = 0
            if self.pages:
                cache.data[: self.pages] = self.caches[name].data
            self.caches[name] = cache
            self.request.set_tensor(name, cache)
        self.pages = pages

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.owned = 0

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.rows, self.owned = [list(self.rows[parent]) for parent in parents], 0


def begins(ends: np.ndarray) -> np.ndarray:
    """Where each part of a sequence begins, and where the last one ends."""
    return np.concatenate([[0], ends]).astype(np.int32)
