"""Run a lowered decoder with ONNX Runtime."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import numpy as np
import onnxruntime

from backends import BackendError, Batch, KeyValues, Placement, Top, check_batch, check_call, check_parents
from backends.cached import CachedSession
from backends.memory import overflows_memory
from backends.onnx import whole
from backends.onnx.caches import FIRST_CAPACITY, layer_of, make_room, out_of_sight
from backends.onnx.step import RaggedStep, Step
from backends.processor import Neighbours, cores, overflows
from backends.recurrent import AFTER, States

ALONE = {"session.intra_op.spin_duration_us": "200"}
"""Threads wait for each other awake, and from one token to the next, but not for what takes longer: a third faster,
while each has a core to itself."""
CROWDED = {"session.intra_op.allow_spinning": "0", "session.dynamic_block_base": "4"}
"""Threads sleep while they wait and share work in small parts: twice as fast, when others want the cores."""
SLOWER = {"session.x64quantprecision": "1"}
"""For processors whose products of bytes overflow. It turns matrices around at load: half a second for gpt2, and its
size once more in memory."""
UNPACKED = {"session.disable_prepacking": "1"}
"""For weights that are larger than the memory: pages of their file, which the system reads and drops as it must."""
SPARE = 64 << 20
"""Bytes of buffers that are kept for when there are as many rows again: new memory costs more than the copy into it."""
FEW = 16
"""Tokens of a call whose arrays are kept for the next one of the same shape; longer ones are parts of prompts."""
LOOK = 0.5
"""Seconds between two looks at what others do with the cores."""


def open_runtime(graph: Path, config: Mapping[str, str], *, optimised: bool = True) -> onnxruntime.InferenceSession:
    """Load a graph into ONNX Runtime, with entries for its session configuration, as it is unless `optimised`."""
    onnxruntime.disable_telemetry_events()  # those of Windows, which asks no variable
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, and told once
    options.intra_op_num_threads = cores()
    options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in {**(SLOWER if overflows() else {}), **config}.items():
        options.add_session_config_entry(key, value)
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no base class of its own errors
        raise BackendError(f"ONNX Runtime cannot load {graph.parent}: {error}") from error


class Watch(Protocol):
    """Who tells what others do with the cores."""

    start: float

    def cores(self) -> float: ...


class Session(CachedSession):
    """A loaded decoder; keys and values stay in buffers shared by past and present.

    Where there is an encoder, it reads each prompt once, and the keys and values it gives stay until the next.
    """

    rows_apart = True
    windows: Sequence[int]
    """Of each layer the tokens that it sees; 0 where it sees all."""
    unseen: dict[int, int]
    """By window: tokens at the beginning of a cache that the graph is not shown."""
    cache: dict[str, np.ndarray]
    """The caches, floats called `past_...` or bytes called `bytes_...`."""
    own_states: dict[str, np.ndarray]
    """What layers have that do not attend, `state_...`, (rows, ...)."""

    def __init__(self, folder: Path, *, unpacked: bool | None = None):
        self.folder, self.crowded = folder, False
        weights = folder / "model.data"
        self.unpacked = overflows_memory(weights.stat().st_size) if unpacked is None else unpacked
        self.whole_prompts = (folder / "encoder.onnx").exists()
        start = time.monotonic()
        self.load(ALONE)
        runtime = self.runtime
        self.patience = max(LOOK, 5 * (time.monotonic() - start))
        self.neighbours: Watch = Neighbours()
        self.computing = 0.0
        """Seconds spent in the runtime since the last look at the neighbours."""
        self.inputs: dict[str, Sequence[int]] = {i.name: i.shape for i in runtime.get_inputs()}
        self.token_bytes = sum(4 * shape[1] * shape[3] for shape in self.shapes("past_").values())
        facts = runtime.get_modelmeta().custom_metadata_map
        self.context_length = int(facts["context_length"])
        self.vocab_size, self.tops = (int(output.shape[2]) for output in runtime.get_outputs()[:2])
        device = runtime.get_providers()[0].removesuffix("ExecutionProvider").lower()
        self.placement = Placement("onnx", device, facts["precision"])
        self.start_token = int(facts.get("start_token", 0))
        self.border, self.windows, self.long = int(facts["border"]), [*map(int, facts["windows"].split())], False
        self.unseen = out_of_sight(0, self.windows)
        self.rows = self.capacity = 0
        self.cache, self.own_states = {}, {}
        self.held = "past_"
        """How their names begin."""
        self.scales = whole.Scales({name: (shape[1], shape[3]) for name, shape in self.shapes("bytes_").items()})
        self.long_from = whole.LONG if (folder / whole.ALLOWED).exists() else whole.NEVER
        self.after, self.gain = whole.AFTER, whole.Gain()
        self.single = 0
        """Tokens decoded one after the other."""
        self.spare: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        """The buffers that were used before these, by rows and capacity."""
        self.alike = 0
        """Cached tokens that all rows share."""
        self.memory: dict[str, np.ndarray] = {}
        """Keys and values of the prompt that the encoder has read."""
        self.steps: dict[tuple[int, int], Step] = {}
        self.batches: WeakSet[RowsBatch] = WeakSet()

    def shapes(self, kind: str) -> dict[str, Sequence[int]]:
        """The shapes of the inputs whose names begin so."""
        return {name: shape for name, shape in self.inputs.items() if name.startswith(kind)}

    @property
    def held_otherwise(self) -> dict[str, np.ndarray]:
        """What a graph with caches of two kinds reads besides those that are used."""
        return self.unused(self.held == "bytes_")

    def unused(self, in_bytes: bool) -> dict[str, np.ndarray]:
        """The scales, whether caches are `in_bytes`, and caches of no use in the place of the others."""
        if not self.scales.values:
            return {}
        scales = {name.replace("bytes_", "scale_"): values for name, values in self.scales.values.items()}
        kind, dtype = ("past_", np.float32) if in_bytes else ("bytes_", np.int8)
        others = {name: np.zeros((1, shape[1], 1, shape[3]), dtype) for name, shape in self.shapes(kind).items()}
        return {"in_bytes": np.array([in_bytes]), **scales, **others}

    def load(self, config: Mapping[str, str]) -> None:
        """Open the graphs; packed weights would be copies, which what is larger than the memory must not have."""
        config = {**config, **(UNPACKED if self.unpacked else {})}
        self.runtime = open_runtime(self.folder / "model.onnx", config)
        self.encoder = open_runtime(self.folder / "encoder.onnx", config) if self.whole_prompts else None

    @property
    def batch(self) -> int:
        return self.rows if self.cached else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if batch > 1 and count > 1 and self.length:  # GroupQueryAttention refuses
            steps = [self.forward(column).copy() for column in np.split(tokens, count, axis=1)]
            self.top = None  # of the last token only
            return np.concatenate(steps[-last:], axis=1)
        self.adapt()
        start, ahead = time.monotonic(), self.read_ahead
        if self.encoder and not self.cached:
            self.memory, self.steps = self.encode(self.encoder, tokens), {}
            tokens, ahead, count = np.full((batch, 1), self.start_token), count - 1, 1
        self.reserve(batch, self.cached + count)
        for values in self.own_states.values() if not self.cached else ():
            values[:] = 0
        self.single = self.single + 1 if count == 1 else 0
        self.hold(count)
        if (unseen := self.out_of_sight(self.cached)) != self.unseen:
            self.unseen, self.steps = unseen, {}
        if (count, last) not in self.steps:
            self.steps = {key: step for key, step in self.steps.items() if key[0] <= FEW}
            self.steps[count, last] = Step(self, batch, count, last)
        step = self.steps[count, last]
        step.run(tokens, self.cached, self.border if self.long else 0)
        new = slice(self.cached, self.cached + count)
        while self.held == "bytes_" and self.scales.widen(self.cache, new):
            step.call()
        spent = time.monotonic() - start
        self.computing += spent
        if batch == count == 1:
            self.gain.steps[self.held == "bytes_"].append(spent)
        self.alike = self.alike if self.cached else 0
        self.cached, self.read_ahead = self.cached + count, ahead
        self.top = step.top
        return step.logits

    def encode(self, encoder: onnxruntime.InferenceSession, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """What the decoder's layers attend to in a prompt."""
        batch, count = tokens.shape
        feeds = dict(
            tokens=tokens,
            positions=np.tile(np.arange(count), (batch, 1)),
            last_position=np.full(batch, count - 1, np.int32),
            total_length=np.array([count], np.int32),
        )
        try:
            values = encoder.run(None, {wanted.name: feeds[wanted.name] for wanted in encoder.get_inputs()})
        except Exception as error:  # onnxruntime has no base class of its own errors
            raise BackendError(f"ONNX Runtime failed: {error}") from error
        return {output.name: value for output, value in zip(encoder.get_outputs(), values, strict=True)}

    @property
    def may_hold_bytes(self) -> bool:
        return bool(self.scales.values)

    def hold_bytes_from(self, length: int) -> None:
        self.long_from, self.after = length, 0

    def allow_bytes(self, allowed: bool) -> None:
        self.long_from, self.after = (whole.LONG if allowed else whole.NEVER), whole.AFTER
        with suppress(OSError):  # a folder that is only read
            mark = self.folder / whole.ALLOWED
            mark.touch() if allowed else mark.unlink(missing_ok=True)

    def hold(self, count: int) -> None:
        """Turn the caches into bytes where many single tokens follow a long text, and back for a part of a prompt."""
        if self.held == "bytes_" and self.after and self.gain.missed:
            self.long_from = whole.NEVER
        if self.held == "bytes_" and (count > FEW or self.long_from == whole.NEVER):
            self.turn("bytes_", "past_")
        elif self.held == "past_" and self.scales.values and self.cached >= self.long_from and self.single > self.after:
            begun = time.monotonic()
            self.turn("past_", "bytes_")
            self.gain.turned(time.monotonic() - begun)

    def turn(self, before: str, after: str) -> None:
        """Make caches of bytes of those of floats, or the other way; each is left as soon as the other is there."""
        caches, rows, capacity, length = self.cache, self.rows, self.capacity, self.cached
        self.cache, self.rows, self.capacity, self.cached = {}, 0, 0, 0  # should memory be short
        self.steps, self.spare, made = {}, {}, {}
        for name in list(caches):
            values, to = caches.pop(name), name.replace(before, after)
            made[to] = self.make_room(to, values.shape)
            seen = values[:, :, :length]
            turned = self.scales.round(to, seen) if after == "bytes_" else self.scales.restore(name, seen)
            made[to][:, :, :length] = turned
        self.held, self.cache, self.rows, self.capacity, self.cached = after, made, rows, capacity, length

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.alike, self.single = min(self.alike, self.cached), 0
        if not self.cached and self.held == "bytes_":
            self.held, self.cache, self.rows, self.capacity, self.steps = "past_", {}, 0, 0, {}

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        if list(parents) == list(range(self.rows)):
            return
        if self.memory:
            self.memory, self.steps = {name: values[list(parents)] for name, values in self.memory.items()}, {}
        if len(parents) != self.rows:
            self.resize(parents, self.capacity)
        else:
            moved = [row for row, parent in enumerate(parents) if row != parent]
            sources, part = [parents[row] for row in moved], slice(self.alike, self.cached)
            for values in self.cache.values():
                values[moved, :, part] = values[sources, :, part]
            for values in self.own_states.values():
                values[moved] = values[sources]
        self.alike = self.cached if len(set(parents)) == 1 else self.alike

    def states(self) -> States:
        return {name: values.copy() for name, values in self.own_states.items()}

    def put(self, states: States) -> None:
        for name, values in self.own_states.items():
            values[:] = states[name]

    def export(self, row: int) -> KeyValues | None:
        if self.whole_prompts or self.border:
            return None
        found = {name: values[row, :, : self.cached] for name, values in self.cache.items()}
        if self.held == "past_":
            return found | exported(self.own_states, row, self.cached)
        return {name.replace("bytes_", "past_"): self.scales.restore(name, x[None])[0] for name, x in found.items()}

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rewind(0)
        self.reserve(1, len(tokens))
        for name, values in self.cache.items():
            values[0, :, : len(tokens)] = found[name][:, : len(tokens)]
        for name, values in self.own_states.items():
            values[0] = found[name]
        self.cached, self.top = len(tokens), None

    def open_batch(self) -> Batch | None:
        if self.whole_prompts or self.border:
            return None
        batch = RowsBatch(self)
        self.batches.add(batch)
        return batch

    def adapt(self) -> None:
        """Load the graph anew, with threads that wait in the other way, when others came or left.

        ONNX Runtime fixes this when it loads; five times as long passes between two changes as a load takes.
        """
        passed = time.monotonic() - self.neighbours.start
        if passed < self.patience:
            return
        others, computing, self.computing = self.neighbours.cores(), self.computing, 0.0
        if computing < passed / 2:  # what others do while we are idle takes nothing from us
            return
        crowded = others > (0.2 if self.crowded else 0.5)
        if crowded != self.crowded:
            self.crowded, self.steps = crowded, {}
            for batch in self.batches:
                batch.steps = {}
            del self.runtime, self.encoder  # never two copies of the weights
            self.load(CROWDED if crowded else ALONE)

    def reserve(self, batch: int, length: int) -> None:
        """Make room for `length` tokens in `batch` rows."""
        length, self.expected = max(length, self.expected), 0
        if batch != self.rows or length > self.capacity:
            room = max(FIRST_CAPACITY, 1 << (length - 1).bit_length())
            self.resize(range(batch), min(self.context_length, room))

    def out_of_sight(self, length: int) -> dict[int, int]:
        """By window: how many of so many tokens the graph need not be shown."""
        return out_of_sight(length, self.unseen)

    def make_room(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A cache of this name and shape (rows, kv_heads, capacity, width), of zeros."""
        kind = np.int8 if name.startswith("bytes_") else np.float32
        return make_room(shape, kind, self.windows[layer_of(name)])

    def resize(self, parents: Sequence[int], capacity: int) -> None:
        """Give every buffer new rows and room for `capacity` tokens; small ones that are left may serve again.

        Large ones are left one by one, so that at most one of them is there twice.
        """
        before, length = self.cache, self.cached
        fresh = self.spare.pop((len(parents), capacity), {}) if self.held == "past_" else {}
        self.steps = {}  # they hold the buffers
        if before and self.held == "past_" and sum(values.nbytes for values in before.values()) <= SPARE:
            self.spare, before = {(self.rows, self.capacity): before}, dict(before)
        before = before if length else {}
        states = {
            name: np.zeros((len(parents), *shape[1:]), np.float32) for name, shape in self.shapes("state_").items()
        }
        for name, values in self.own_states.items() if length else ():
            states[name][:] = values[list(parents)]
        self.own_states = states
        self.cache, self.rows, self.capacity, self.cached = {}, 0, 0, 0  # should memory be short
        for name, shape in self.shapes(self.held).items():
            if name not in fresh:
                fresh[name] = self.make_room(name, (len(parents), shape[1], capacity, shape[3]))
            if length:
                fresh[name][:, :, :length] = before.pop(name)[list(parents), :, :length]
        self.cache, self.rows, self.capacity, self.cached = fresh, len(parents), capacity, length


class RowsBatch:
    """A batch whose rows lie in the first places of shared buffers, in an order of their own."""

    def __init__(self, session: Session):
        self.session, self.vocab_size, self.tops = session, session.vocab_size, session.tops
        self.states: dict[str, np.ndarray] = {}
        self.inputs = session.inputs
        self.lengths: list[int] = []
        self.places: list[int] = []
        """Where each row lies; together the first places."""
        self.top: Top | None = None
        self.memory: dict[str, np.ndarray] = {}
        self.buffers: dict[str, np.ndarray] = {}
        self.steps: dict[int, RaggedStep] = {}
        self.windows = session.windows
        self.unseen = session.out_of_sight(0)
        """By window: tokens at the beginning of each row's cache that the graph is not shown."""

    @property
    def runtime(self) -> onnxruntime.InferenceSession:
        return self.session.runtime

    @property
    def cache(self) -> dict[str, np.ndarray]:
        """The part of each buffer that rows lie in, (rows, kv_heads, capacity, width)."""
        return {name: values[: len(self.lengths)] for name, values in self.buffers.items()}

    @property
    def own_states(self) -> dict[str, np.ndarray]:
        """The same of what layers have that do not attend, (rows, ...)."""
        return {name: values[: len(self.lengths)] for name, values in self.states.items()}

    @property
    def held_otherwise(self) -> dict[str, np.ndarray]:
        """What a graph with caches of two kinds reads besides those of floats."""
        return self.session.unused(False)

    def join(self, found: KeyValues, length: int) -> None:
        place = len(self.lengths)
        self.reserve(place + 1, length + 1)
        for name, values in self.buffers.items():
            values[place, :, :length] = found[name][:, :length]
        for name, values in self.states.items():
            values[place] = found[name]
        self.lengths.append(length)
        self.places.append(place)

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        check_batch(self.lengths, tokens, self.session.context_length)
        rows = len(self.lengths)
        self.reserve(rows, max(self.lengths) + 1)
        self.session.adapt()
        start = time.monotonic()
        if (unseen := self.session.out_of_sight(min(self.lengths))) != self.unseen:
            self.unseen, self.steps = unseen, {}
        if rows not in self.steps:
            self.steps = {rows: RaggedStep(self, rows, 1, 1)}
        step, places = self.steps[rows], self.places
        by_place = np.empty((rows, 1), np.int64)
        past = np.empty((rows, 1), np.int64)
        by_place[places], past[places, 0] = tokens, self.lengths
        step.run_rows(by_place, past)
        self.session.computing += time.monotonic() - start
        self.lengths = [length + 1 for length in self.lengths]
        if places == list(range(rows)):
            self.top = step.top
            return step.logits
        self.top = Top(step.top.tokens[places], step.top.logits[places])
        return step.logits[places]

    def reorder(self, parents: Sequence[int]) -> None:
        if parents:
            check_parents(parents, len(self.lengths))
        rows, lengths = len(parents), [self.lengths[parent] for parent in parents]
        self.reserve(rows, max(lengths, default=0))
        kept: dict[int, int] = {}  # the first row that continues another stays where that was, if there is room
        for row, parent in enumerate(parents):
            kept.setdefault(parent, row)
        stay = {row: self.places[parent] for parent, row in kept.items() if self.places[parent] < rows}
        free = iter(sorted(set(range(rows)) - set(stay.values())))
        places = [stay[row] if row in stay else next(free) for row in range(rows)]
        for row, parent in enumerate(parents):
            if row not in stay:
                for values in self.buffers.values():
                    values[places[row], :, : lengths[row]] = values[self.places[parent], :, : lengths[row]]
                for values in self.states.values():
                    values[places[row]] = values[self.places[parent]]
        self.places, self.lengths = places, lengths
        if not rows:
            self.buffers, self.states, self.steps = {}, {}, {}

    def export(self, row: int) -> KeyValues:
        place, length = self.places[row], self.lengths[row]
        found = {name: values[place, :, :length] for name, values in self.buffers.items()}
        return found | exported(self.states, place, length)

    def reserve(self, rows: int, length: int) -> None:
        """Make room for `length` tokens in so many rows: at least twice as much as before, where there is too little.

        The system gives memory only to what is written to.
        """
        held, _, capacity, _ = next(iter(self.buffers.values())).shape if self.buffers else (0, 0, 0, 0)
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
            for place, count in zip(self.places, self.lengths, strict=True):
                self.buffers[name][place, :, :count] = values[place, :, :count]
        states = {
            name: np.zeros((held, *shape[1:]), np.float32) for name, shape in self.session.shapes("state_").items()
        }
        for name, values in self.states.items():
            states[name][: len(values)] = values
        self.states = states


def exported(states: States, row: int, length: int) -> dict[str, np.ndarray]:
    """The states of a row, and after how many tokens they are, where there are any."""
    return {AFTER: np.array([length])} | {name: values[row] for name, values in states.items()} if states else {}
