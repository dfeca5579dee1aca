"""Run a lowered decoder whose caches are pages, which rows share until one of them writes there."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from weakref import WeakSet

import numpy as np
from openvino import InferRequest, Shape, Tensor

from backends import Batch, KeyValues, check_batch, check_call, check_parents
from backends.cached import CachedSession
from backends.openvino.paging import page, seen
from backends.openvino.runtime import compile_model, infer, placement, properties, read_facts

FIRST_PAGES = 8
"""Pages of a new cache; it doubles when they are used up."""


class Pages:
    """The pages of a session and of the batches beside it."""

    def __init__(self, request: InferRequest):
        ports = request.get_compiled_model().inputs
        self.request = request
        self.ports = {port.any_name: port for port in ports if "_cache." in port.any_name}
        self.caches: dict[str, Tensor] = {}
        """Keys and values by name, each (pages, kv_heads, ...)."""
        self.size: int = self.ports["value_cache.0"].partial_shape[2].get_length()
        """Tokens that a page holds."""
        self.count = 0
        self.readers: WeakSet[PagedSession] = WeakSet()

    def users(self) -> Counter[int]:
        """How many rows read each page."""
        return Counter(chain.from_iterable(row for reader in self.readers for row in reader.rows))

    def grow(self, more: int) -> None:
        """Make room for so many pages more, or for twice as many as before."""
        pages = self.count + max(more, self.count, FIRST_PAGES)
        for name, port in self.ports.items():
            _, *shape = port.partial_shape
            cache = Tensor(port.element_type, Shape([pages, *(size.get_length() for size in shape)]))
            cache.data[self.count :] = 0
            if self.count:
                cache.data[: self.count] = self.caches[name].data
            self.caches[name] = cache
            self.request.set_tensor(name, cache)
        self.count = pages


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
        self.windows = {window for window, _ in facts.layers or ()}
        """How many tokens layers see, 0 for all; the pages before these are not shown to the plugin."""
        self.pages = Pages(self.request)
        self.pages.readers.add(self)
        self.page = self.pages.size
        self.rows: list[list[int]] = []
        """The pages of each row."""
        self.owned = 0
        """Tokens up to which each row has pages, and shares none that it may write to."""
        self.forward(np.zeros((1, 1), np.int64))  # packs the weights, while nobody waits yet
        held = sum(int(cache.byte_size) for cache in self.pages.caches.values())
        self.token_bytes = held // (self.pages.count * self.page)
        self.rewind(0)

    @property
    def lengths(self) -> list[int]:
        """Tokens cached in each row."""
        return [self.length] * len(self.rows)

    @property
    def batch(self) -> int:
        return len(self.rows) if self.length else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if not self.length:
            self.rows, self.owned = [[] for _ in range(batch)], 0
        total = self.length + count
        needed, self.expected = max(total, self.expected), 0
        if needed > self.owned:
            self.own([needed] * batch)
        logits = self.infer(tokens, last)
        self.cached = total
        return logits

    def infer(self, tokens: np.ndarray, last: int) -> np.ndarray:
        """The logits (batch, last, vocab) after more tokens of every row."""
        batch, count = tokens.shape
        lengths, ends = np.array(self.lengths), count * np.arange(1, batch + 1)
        feeds = {
            "tokens": tokens.reshape(1, -1),
            "positions": (lengths[:, None] + np.arange(count)).ravel(),
            "wanted": (ends[:, None] + np.arange(-last, 0)).ravel(),
            "subsequence_begins": begins(ends),
        }
        for window in self.windows:
            feeds |= zip(seen(window), self.show(lengths, count, window), strict=True)
        if self.border:
            feeds["long"] = np.array([self.long], np.int64)
        infer(self.request, feeds)
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits.reshape(batch, last, -1)

    def show(self, lengths: np.ndarray, count: int, window: int) -> list[np.ndarray]:
        """What layers with a window are told of rows of such lengths, and so many tokens more, as `seen` names it."""
        unseen = np.maximum(lengths + 1 - window, 0) // self.page if window else 0 * lengths
        rows = [row[first:] for row, first in zip(self.rows, unseen, strict=True)]
        past = lengths - unseen * self.page
        pages = np.fromiter(chain(*rows), np.int32)
        longest = np.array(past.max() + count, np.int32)
        return [past.astype(np.int32), pages, begins(np.cumsum([len(row) for row in rows])), longest]

    def own(self, totals: Sequence[int]) -> None:
        """Give every row pages of its own for what comes after its length, up to so many tokens."""
        lengths, needed = self.lengths, [-(-total // self.page) for total in totals]
        for row, length in zip(self.rows, lengths, strict=True):
            del row[-(-length // self.page) :]  # rewound
        users = self.pages.users()
        most = sum(wanted - length // self.page for wanted, length in zip(needed, lengths, strict=True))
        if self.pages.count - len(users) < most:
            self.pages.grow(most)
        free = (number for number in range(self.pages.count) if number not in users)
        copies = {}
        for row, length, wanted in zip(self.rows, lengths, needed, strict=True):
            begun = length // self.page
            if len(row) > begun and users[row[begun]] > 1:  # others read what is there
                users[row[begun]] -= 1
                copied, row[begun] = row[begun], next(free)
                copies[row[begun]] = copied
            row += islice(free, wanted - len(row))
        for cache in self.pages.caches.values() if copies else ():
            cache.data[list(copies)] = cache.data[list(copies.values())]
        self.owned = min(needed) * self.page

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.owned = 0

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.rows, self.owned = [list(self.rows[parent]) for parent in parents], 0

    def export(self, row: int) -> KeyValues | None:
        if self.border:
            return None
        pages = self.rows[row][: -(-self.lengths[row] // self.page)]
        return {name: cache.data[pages] for name, cache in self.pages.caches.items()}

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rewind(0)
        self.rows = [[]]
        self.own([len(tokens)])
        self.fill(self.rows[0], found)
        self.cached = len(tokens)

    def fill(self, pages: Sequence[int], found: KeyValues) -> None:
        """Copy what was exported into pages."""
        for name, cache in self.pages.caches.items():
            cache.data[list(pages)] = found[name][: len(pages)]

    def open_batch(self) -> Batch | None:
        return None if self.border else PagedBatch(self)


class PagedBatch(PagedSession):
    """A batch with pages of its own; rows may be of any lengths."""

    def __init__(self, session: PagedSession):
        self.request, self.pages, self.page = session.request, session.pages, session.page
        self.windows = session.windows
        self.context_length, self.border, self.rows, self.owned = session.context_length, 0, [], 0
        self.counts: list[int] = []
        self.pages.readers.add(self)

    @property
    def lengths(self) -> list[int]:
        return self.counts

    def join(self, found: KeyValues, length: int) -> None:
        self.rows.append([])
        self.counts.append(0)
        needed = [max(length, count) for count in self.counts]
        needed[-1] = length
        self.own(needed)
        self.fill(self.rows[-1], found)
        self.counts[-1] = length

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        check_batch(self.counts, tokens, self.context_length)
        if not self.owned or any(len(row) * self.page <= n for row, n in zip(self.rows, self.counts, strict=True)):
            self.own([count + 1 for count in self.counts])
        logits = self.infer(tokens, last)
        self.counts = [count + 1 for count in self.counts]
        return logits

    def reorder(self, parents: Sequence[int]) -> None:
        self.rows, self.owned = [list(self.rows[parent]) for parent in parents], 0
        self.counts = [self.counts[parent] for parent in parents]

    def export(self, row: int) -> KeyValues:
        found = super().export(row)
        assert found is not None  # sessions with a border have no batches
        return found


def begins(ends: np.ndarray) -> np.ndarray:
    """Where each part of a sequence begins, and where the last one ends."""
    return np.concatenate([[0], ends]).astype(np.int32)
