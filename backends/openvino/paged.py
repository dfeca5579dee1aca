"""Run a lowered decoder with paged caches; rows share pages until one of them writes there."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from weakref import WeakSet

import numpy as np
from openvino import InferRequest, Shape, Tensor

from backends import Batch, KeyValues, check_batch
from backends.buffers import UNUSED, give_back, give_back_file, zeros
from backends.cached import CachedSession
from backends.openvino.paging import page, seen
from backends.openvino.runtime import IN_FLOAT32, WEIGHTS, compile_model, infer, placement, properties, read_facts
from backends.sliding import STRIDE, Held, export_begin, first_held, read_begin

FIRST_PAGES = 8
"""Pages of a new cache; doubled when they are used up."""


class Pages:
    """The pages of a session and of its batches."""

    def __init__(self, request: InferRequest):
        ports = request.get_compiled_model().inputs
        self.request = request
        self.ports = {port.any_name: port for port in ports if "_cache." in port.any_name}
        self.caches: dict[str, np.ndarray] = {}
        """Keys and values by name, each (pages, kv_heads, ...)."""
        self.size: int = self.ports["value_cache.0"].partial_shape[2].get_length()
        """Tokens per page."""
        self.windowed: list[str] = []
        """The caches of windowed layers."""
        self.count = 0
        self.readers: WeakSet[PagedSession] = WeakSet()

    def users(self) -> Counter[int]:
        """How many rows use each page."""
        return Counter(chain.from_iterable(row for reader in self.readers for row in reader.rows))

    def grow(self, more: int) -> None:
        """Make room for at least `more` pages, at least doubling the cache."""
        pages = self.count + max(more, self.count, FIRST_PAGES)
        held = sorted({number for reader in self.readers for row in reader.held_pages() for number in row})
        for name, port in self.ports.items():
            _, *shape = port.partial_shape
            grown = zeros((pages, *(size.get_length() for size in shape)), port.element_type.to_dtype())
            if self.count:
                kept = held if name in self.windowed else slice(0, self.count)
                grown[kept] = self.caches[name][kept]
            self.request.set_tensor(name, Tensor(grown, Shape(grown.shape), port.element_type))  # the same memory
            self.caches[name] = grown
        self.count = pages

    def give_back(self, numbers: Sequence[int]) -> None:
        """Give the memory of windowed layers' pages back to the system."""
        for name in self.windowed if numbers else ():
            cache = self.caches[name]
            for first, last in runs(numbers):
                give_back(cache[first : last + 1])


class PagedSession(CachedSession):
    """A loaded decoder; rewinding and reordering only change which pages a row has."""

    def __init__(self, folder: Path, device: str):
        facts = read_facts(folder)
        change = partial(page, layers=facts.layers or ())
        config = properties(device, facts, pages=True, in_float32=(folder / IN_FLOAT32).exists())
        # Not cached: the plugin of 2026.4 cannot read its own copy of a model with such attention.
        compiled = compile_model(folder, device, config, name="", change=change)
        self.request = compiled.create_infer_request()
        self.context_length, self.vocab_size = facts.context_length, facts.vocab_size
        self.placement = placement(compiled, facts)
        self.border, self.long = facts.border, False
        self.windows = {window for window, _ in facts.layers or ()}
        """The layers' distinct windows, 0 for none; pages before a window are hidden from the plugin."""
        self.pages = Pages(self.request)
        self.pages.readers.add(self)
        self.page = self.pages.size
        windowed = {i for i, (window, _) in enumerate(facts.layers or ()) if window}
        self.pages.windowed = [name for name in self.pages.ports if int(name.rpartition(".")[2]) in windowed]
        self.sliding = bool(windowed) and not self.border and UNUSED is not None and STRIDE % self.page == 0
        """Whether windowed layers drop tokens that they no longer see."""
        self.holds = Held(max(self.windows, default=0))
        self.rows: list[list[int]] = []
        """The pages of each row."""
        self.owned = 0
        """Tokens up to which each row has pages that it may write to, as nobody shares them."""
        self.forward(np.zeros((1, 1), np.int64))  # packs the weights before anyone waits
        give_back_file(folder / WEIGHTS)  # the packed weights are copies
        held = sum(cache.nbytes for cache in self.pages.caches.values())
        self.token_bytes = held // (self.pages.count * self.page)
        self.rewind(0)

    @property
    def lengths(self) -> list[int]:
        """Tokens cached in each row."""
        return [self.length] * len(self.rows)

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        if not self.cached:
            self.rows, self.owned = [[] for _ in range(batch)], 0
        total = self.cached + count
        needed, self.expected = max(total, self.expected), 0
        if needed > self.owned:
            self.own([needed] * batch)
        logits = self.infer(tokens, last)
        for unneeded in self.holds.advance(total) if self.sliding else ():
            for row in self.rows:
                self.pages.give_back(self.cut(row, unneeded))
        return logits

    def cut(self, row: Sequence[int], part: slice) -> Sequence[int]:
        """The pages of a part of a row's tokens."""
        return row[part.start // self.page : -(-part.stop // self.page)]

    def held_pages(self) -> list[Sequence[int]]:
        """The pages of each row that windowed layers hold."""
        return [[*chain(*(self.cut(row, part) for part in self.holds.parts(self.length)))] for row in self.rows]

    def infer(self, tokens: np.ndarray, last: int) -> np.ndarray:
        """Read more tokens of every row; returns the logits (batch, last, vocab)."""
        batch, count = tokens.shape
        lengths, ends = np.array(self.lengths), count * np.arange(1, batch + 1)
        feeds = {
            "tokens": tokens.reshape(1, -1),
            "positions": (lengths[:, None] + np.arange(count)).ravel(),
            "wanted": (ends[:, None] + np.arange(-last, 0)).ravel(),
            "subsequence_begins": bounds(ends),
        }
        for window in self.windows:
            feeds |= zip(seen(window), self.show(lengths, count, window), strict=True)
        if self.border:
            feeds["long"] = np.array([self.long], np.int64)
        infer(self.request, feeds)
        logits: np.ndarray = self.request.get_tensor("logits").data
        return logits.reshape(batch, last, -1)

    def show(self, lengths: np.ndarray, count: int, window: int) -> list[np.ndarray]:
        """The `seen` inputs for a window: rows of these lengths, and `count` tokens more."""
        unseen = np.maximum(lengths + 1 - window, 0) // self.page if window else 0 * lengths
        rows = [row[first:] for row, first in zip(self.rows, unseen, strict=True)]
        past = lengths - unseen * self.page
        pages = np.fromiter(chain(*rows), np.int32)
        longest = np.array(past.max() + count, np.int32)
        return [past.astype(np.int32), pages, bounds(np.cumsum([len(row) for row in rows])), longest]

    def own(self, totals: Sequence[int]) -> None:
        """Give every row pages that it may write to, from its length up to its total."""
        lengths, needed = self.lengths, [-(-total // self.page) for total in totals]
        for row, length in zip(self.rows, lengths, strict=True):
            del row[-(-length // self.page) :]  # these were rewound
        users = self.pages.users()
        most = sum(wanted - length // self.page for wanted, length in zip(needed, lengths, strict=True))
        if self.pages.count - len(users) < most:
            self.pages.grow(most)
        free = (number for number in range(self.pages.count) if number not in users)
        copies = {}
        for row, length, wanted in zip(self.rows, lengths, needed, strict=True):
            begun = length // self.page
            if len(row) > begun and users[row[begun]] > 1:  # other rows read what is there
                users[row[begun]] -= 1
                copied, row[begun] = row[begun], next(free)
                copies[row[begun]] = copied
            row += islice(free, wanted - len(row))
        for cache in self.pages.caches.values() if copies else ():
            cache[list(copies)] = cache[list(copies.values())]
        self.owned = min(needed) * self.page

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.owned = 0
        self.holds.go_back(length)

    def take_rows(self, parents: Sequence[int]) -> None:
        self.rows, self.owned = [list(self.rows[parent]) for parent in parents], 0

    def export(self, row: int) -> KeyValues | None:
        if self.border:
            return None
        pages, begin = self.rows[row][: -(-self.lengths[row] // self.page)], self.starts[row]
        held = {name: pages[begin // self.page :] for name in self.pages.windowed}
        found = {name: cache[held.get(name, pages)] for name, cache in self.pages.caches.items()}
        return found | export_begin(begin)

    @property
    def starts(self) -> list[int]:
        """The first token of each row that windowed layers hold."""
        return [self.holds.begin] * len(self.rows)

    def serves(self, found: KeyValues, length: int) -> bool:
        return self.holds.serves(found, length)

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rewind(0)
        self.rows = [[]]
        self.own([len(tokens)])
        self.fill(self.rows[0], found)
        self.cached, self.held_rows, self.holds.begin = len(tokens), 1, read_begin(found)

    def fill(self, pages: Sequence[int], found: KeyValues) -> None:
        """Copy an export into pages."""
        before = read_begin(found) // self.page
        for name, cache in self.pages.caches.items():
            held = pages[before:] if name in self.pages.windowed else pages
            cache[list(held)] = found[name][: len(held)]
        self.pages.give_back(pages[:before])

    def open_batch(self) -> Batch | None:
        return None if self.border else PagedBatch(self)


class PagedBatch(PagedSession):
    """A batch with pages of its own, and rows of any lengths."""

    def __init__(self, session: PagedSession):
        self.request, self.pages, self.page = session.request, session.pages, session.page
        self.windows = session.windows
        self.context_length, self.border, self.rows, self.owned = session.context_length, 0, [], 0
        self.counts: list[int] = []
        self.begun: list[int] = []
        self.sliding, self.holds = session.sliding, session.holds
        self.pages.readers.add(self)

    @property
    def lengths(self) -> list[int]:
        return self.counts

    @property
    def starts(self) -> list[int]:
        return self.begun

    def held_pages(self) -> list[Sequence[int]]:
        held = zip(self.rows, self.begun, self.counts, strict=True)
        return [self.cut(row, slice(begin, count)) for row, begin, count in held]

    def join(self, found: KeyValues, length: int) -> None:
        self.rows.append([])
        self.counts.append(0)
        self.begun.append(read_begin(found))
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
        for row, (begin, count) in enumerate(zip(self.begun, self.counts, strict=True)):
            if self.sliding and (first := first_held(count, self.holds.window)) > begin:
                self.pages.give_back(self.cut(self.rows[row], slice(begin, first)))
                self.begun[row] = first
        return logits

    def reorder(self, parents: Sequence[int]) -> None:
        self.take_rows(parents)
        self.counts = [self.counts[parent] for parent in parents]
        self.begun = [self.begun[parent] for parent in parents]

    def export(self, row: int) -> KeyValues:
        found = super().export(row)
        assert found is not None  # sessions with a border have no batches
        return found


def bounds(ends: np.ndarray) -> np.ndarray:
    """Where each part of a sequence begins, and where the last one ends."""
    return np.concatenate([[0], ends]).astype(np.int32)


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last number of each run of consecutive numbers."""
    ordered = sorted(numbers)
    ends = [place for place, (one, next_one) in enumerate(pairwise(ordered)) if next_one != one + 1]
    return [(ordered[a], ordered[b]) for a, b in zip([0, *(end + 1 for end in ends)], [*ends, -1], strict=True)]
