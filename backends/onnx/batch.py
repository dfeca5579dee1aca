"""Rows of different lengths that grow together in one call of ONNX Runtime."""

import time
from collections.abc import Sequence

import numpy as np

from backends import KeyValues, Top, check_batch, check_parents
from backends.onnx.caches import FIRST_CAPACITY, layer_of, let_go
from backends.onnx.step import Loaded, Step
from backends.recurrent import AFTER, States
from backends.sliding import export_begin, first_held, read_begin


class RowsBatch:
    """A batch whose n rows occupy the first n places of shared buffers, in any order."""

    def __init__(self, session: Loaded):
        self.session, self.windows = session, session.windows
        self.states: dict[str, np.ndarray] = {}
        self.lengths: list[int] = []
        self.places: list[int] = []
        """The place of each row in the buffers."""
        self.begins: list[int] = []
        """The first token of each row that windowed layers still hold."""
        self.top: Top | None = None
        self.buffers: dict[str, np.ndarray] = {}
        self.steps: dict[int, Step] = {}
        self.unseen = session.out_of_sight(0)
        """For each window, how many of each row's first tokens are hidden from the graph."""

    def join(self, found: KeyValues, length: int) -> None:
        place = len(self.lengths)
        self.reserve(place + 1, length + 1)
        self.lengths.append(length)
        self.places.append(place)
        self.begins.append(read_begin(found))
        self.fill(place, found)

    def part(self, row: int, name: str) -> slice:
        """The tokens of a row that a cache holds."""
        return slice(self.begins[row] if self.windows[layer_of(name)] else 0, self.lengths[row])

    def fill(self, row: int, found: KeyValues) -> None:
        """Copy an export to a row's place."""
        place = self.places[row]
        for name, values in self.buffers.items():
            part = self.part(row, name)
            values[place, :, part] = found[name][:, : part.stop - part.start]
            if part.start:
                let_go(values[place : place + 1, :, : part.start])
        for name, values in self.states.items():
            values[place] = found[name]

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        check_batch(self.lengths, tokens, self.session.context_length)
        rows = len(self.lengths)
        self.reserve(rows, max(self.lengths) + 1)
        self.session.adapt()
        start = time.monotonic()
        if (unseen := self.session.out_of_sight(min(self.lengths))) != self.unseen:
            self.unseen, self.steps = unseen, {}
        if rows not in self.steps:
            cache, states = (
                {name: values[:rows] for name, values in every.items()} for every in (self.buffers, self.states)
            )
            self.steps = {rows: Step(self.session, cache, states, unseen=self.unseen)}
        step, places = self.steps[rows], self.places
        by_place = np.empty((rows, 1), np.int64)
        past = np.empty((rows, 1), np.int64)
        by_place[places], past[places, 0] = tokens, self.lengths
        step.run(by_place, past)
        self.session.computing += time.monotonic() - start
        self.lengths = [length + 1 for length in self.lengths]
        if self.session.sliding:
            self.let_go_of_unseen()
        if places == list(range(rows)):
            self.top = step.top
            return step.logits
        self.top = Top(step.top.tokens[places], step.top.logits[places])
        return step.logits[places]

    def let_go_of_unseen(self) -> None:
        """Give back the memory of tokens that are outside the windows of a row, even if it is rewound a little."""
        for row, (place, length) in enumerate(zip(self.places, self.lengths, strict=True)):
            begin = first_held(length, self.session.holds.window)
            if begin > self.begins[row]:
                for name, values in self.buffers.items():
                    if self.windows[layer_of(name)]:
                        let_go(values[place : place + 1, :, self.begins[row] : begin])
                self.begins[row] = begin

    def reorder(self, parents: Sequence[int]) -> None:
        if parents:
            check_parents(parents, len(self.lengths))
        rows, lengths = len(parents), [self.lengths[parent] for parent in parents]
        self.reserve(rows, max(lengths, default=0))
        kept: dict[int, int] = {}  # the first row to continue a parent keeps its place, if there is room
        for row, parent in enumerate(parents):
            kept.setdefault(parent, row)
        stay = {row: self.places[parent] for parent, row in kept.items() if self.places[parent] < rows}
        free = iter(sorted(set(range(rows)) - set(stay.values())))
        places = [stay[row] if row in stay else next(free) for row in range(rows)]
        copied = {row: self.export(parent) for row, parent in enumerate(parents) if row not in stay}
        self.places, self.lengths, self.begins = places, lengths, [self.begins[parent] for parent in parents]
        for row, found in copied.items():
            self.fill(row, found)
        if not rows:
            self.buffers, self.states, self.steps = {}, {}, {}

    def export(self, row: int) -> KeyValues:
        place = self.places[row]
        found = {name: values[place, :, self.part(row, name)] for name, values in self.buffers.items()}
        return found | exported(self.states, place, self.lengths[row]) | export_begin(self.begins[row])

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `rows` rows of `length` tokens, at least doubling what is too small.

        The system gives memory only to what is written to.
        """
        held = len(next(iter({**self.buffers, **self.states}.values()), ()))
        capacity = min((values.shape[2] for values in self.buffers.values()), default=self.session.context_length)
        if rows <= held and length <= capacity:
            return
        held = max(held, 1 << max(rows - 1, 1).bit_length())
        room = max(capacity, FIRST_CAPACITY, 1 << (length - 1).bit_length() if length > capacity else 0)
        room = min(self.session.context_length, room)
        before, self.steps = self.buffers, {}
        self.buffers = {
            name: self.session.make_room(name, (held, shape[1], room, shape[3]))
            for name, shape in self.session.shapes("past_").items()
        }
        for name, values in before.items():
            for row, place in enumerate(self.places):
                part = self.part(row, name)
                self.buffers[name][place, :, part] = values[place, :, part]
        states = {
            name: np.zeros((held, *shape[1:]), np.float32) for name, shape in self.session.shapes("state_").items()
        }
        for name, values in self.states.items():
            states[name][: len(values)] = values
        self.states = states


def exported(states: States, row: int, length: int) -> dict[str, np.ndarray]:
    """The states of a row, and after how many tokens they are, where there are any."""
    return {AFTER: np.array([length])} | {name: values[row] for name, values in states.items()} if states else {}
