"""Run a lowered decoder with ONNX Runtime."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from weakref import WeakSet

import numpy as np
import onnxruntime

from backends import Batch, KeyValues, Placement, check_call
from backends.buffers import UNUSED
from backends.cached import CachedSession
from backends.errors import foreign
from backends.memory import overflows_memory
from backends.onnx import int8_cache
from backends.onnx.batch import RowsBatch, exported
from backends.onnx.caches import FIRST_CAPACITY, layer_of, let_go, make_room, out_of_sight
from backends.onnx.step import Step
from backends.processor import Neighbours, cores, int8_overflows
from backends.recurrent import States
from backends.sliding import Held, export_begin, read_begin

ALONE = {"session.intra_op.spin_duration_us": "200"}
"""For threads with a core each: they spin while waiting for each other and for the next token, but not longer, which is
a third faster."""
CROWDED = {"session.intra_op.allow_spinning": "0", "session.dynamic_block_base": "4"}
"""For when others want the cores: threads sleep while waiting and share work in small parts, which is twice as fast."""
SLOWER = {"session.x64quantprecision": "1"}
"""For processors whose int8 products overflow. It transposes matrices at load: half a second for gpt2, and a copy of
them in memory."""
UNPACKED = {"session.disable_prepacking": "1"}
"""For weights larger than the memory: they stay pages of the mapped file."""
SPARE = 64 << 20
"""Rows are kept for reuse in buffers of up to this many bytes: new memory costs more than the copy into it."""
FEW = 16
"""Calls of up to this many tokens keep their arrays for the next one of the same shape."""
LOOK = 0.5
"""Seconds between two measurements of what others do with the cores."""


def open_runtime(graph: Path, config: Mapping[str, str], *, optimised: bool = True) -> onnxruntime.InferenceSession:
    """Load a graph into ONNX Runtime with entries for its session configuration; as it is unless `optimised`."""
    onnxruntime.disable_telemetry_events()  # on Windows, which ignores the variable
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, not logged as well
    options.intra_op_num_threads = cores()
    options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in {**(SLOWER if int8_overflows() else {}), **config}.items():
        options.add_session_config_entry(key, value)
    with foreign(f"ONNX Runtime cannot load {graph.parent}"):
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


class Session(CachedSession):
    """A loaded decoder; past and present keys and values share buffers.

    An encoder reads each prompt once; the keys and values that it returns are kept until the next prompt.
    """

    rows_apart = True
    windows: Sequence[int]
    """Each layer's window; 0 where it sees all tokens."""
    unseen: dict[int, int]
    """For each window, how many first tokens of a cache are hidden from the graph."""
    cache: dict[str, np.ndarray]
    """The caches in use, float32 `past_...` or int8 `bytes_...`."""
    own_states: dict[str, np.ndarray]
    """The recurrent states, `state_...`, (rows, ...)."""

    def __init__(self, folder: Path, *, unpacked: bool | None = None):
        self.folder, self.crowded = folder, False
        weights = folder / "model.data"
        self.unpacked = overflows_memory(weights.stat().st_size) if unpacked is None else unpacked
        self.whole_prompts = (folder / "encoder.onnx").exists()
        start = time.monotonic()
        self.load(ALONE)
        runtime = self.runtime
        self.patience = max(LOOK, 5 * (time.monotonic() - start))
        self.neighbours = Neighbours()
        self.computing = 0.0
        """Seconds spent in the runtime since the last measurement."""
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
        """The prefix of the names in `cache`."""
        self.scales = int8_cache.Scales({name: (shape[1], shape[3]) for name, shape in self.shapes("bytes_").items()})
        self.long_from = int8_cache.LONG if (folder / int8_cache.ALLOWED).exists() else int8_cache.NEVER
        self.after, self.gain = int8_cache.AFTER, int8_cache.Gain()
        self.single = 0
        """Tokens decoded one by one, in a row."""
        self.buffers: dict[str, np.ndarray] = {}
        """The memory of the caches, which may have more rows than are in use."""
        self.holds = Held(max(self.windows))
        self.alike = self.alike_unused = 0
        """How many first tokens are the same in all rows, and in the unused rows of the buffers as well."""
        self.memory: dict[str, np.ndarray] = {}
        """The encoder's keys and values of the prompt."""
        self.steps: dict[tuple[int, int], Step] = {}
        self.batches: WeakSet[RowsBatch] = WeakSet()

    def shapes(self, kind: str) -> dict[str, Sequence[int]]:
        """The shapes of the inputs whose names begin with `kind`."""
        return {name: shape for name, shape in self.inputs.items() if name.startswith(kind)}

    @cached_property
    def sliding(self) -> bool:
        """Whether windowed layers drop tokens that they no longer see."""
        changing = self.border or self.whole_prompts or self.scales.values or self.shapes("state_")
        return bool(any(self.windows) and not changing and UNUSED is not None)

    def unused(self, *, in_bytes: bool) -> dict[str, np.ndarray]:
        """The inputs that choose between the kinds of caches: the flag, the scales, and dummies for the unused kind."""
        if not self.scales.values:
            return {}
        scales = {name.replace("bytes_", "scale_"): values for name, values in self.scales.values.items()}
        kind, dtype = ("past_", np.float32) if in_bytes else ("bytes_", np.int8)
        others = {name: np.zeros((1, shape[1], 1, shape[3]), dtype) for name, shape in self.shapes(kind).items()}
        return {"in_bytes": np.array([in_bytes]), **scales, **others}

    def load(self, config: Mapping[str, str]) -> None:
        """Open the graphs; weights larger than the memory are not packed, which would copy them."""
        config = {**config, **(UNPACKED if self.unpacked else {})}
        self.opened = self.written()
        self.runtime = open_runtime(self.folder / "model.onnx", config)
        self.encoder = open_runtime(self.folder / "encoder.onnx", config) if self.whole_prompts else None

    def written(self) -> tuple[int, int] | None:
        """The graph's inode and time of modification; None if it is gone."""
        with suppress(OSError):
            facts = (self.folder / "model.onnx").stat()
            return facts.st_ino, facts.st_mtime_ns
        return None

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        if batch > 1 and count > 1 and self.length:  # GroupQueryAttention cannot
            check_call(self, batch, count, last)
            steps = [self.forward(column).copy() for column in np.split(tokens, count, axis=1)]
            self.top = None  # of the last token only
            return np.concatenate(steps[-last:], axis=1)
        self.adapt()
        start = time.monotonic()
        logits = super().forward(tokens, last)
        spent = time.monotonic() - start
        self.computing += spent
        if batch == count == 1:
            self.gain.steps[self.held == "bytes_"].append(spent)
        return logits

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        batch, count = tokens.shape
        total = self.cached + count
        self.reserve(batch, total)
        if not self.cached:
            self.holds.go_back(0)
            for values in self.own_states.values():
                values[:] = 0
        self.single = self.single + 1 if count == 1 else 0
        self.choose_cache(count)
        if (unseen := self.out_of_sight(self.cached)) != self.unseen:
            self.unseen, self.steps = unseen, {}
        if (count, last) not in self.steps:
            self.steps = {key: step for key, step in self.steps.items() if key[0] <= FEW}
            self.steps[count, last] = Step(self, self.cache, self.own_states, unseen=unseen, count=count, last=last)
        step = self.steps[count, last]
        step.run(tokens, self.cached, self.border if self.long else 0)
        while self.held == "bytes_" and self.scales.widen(self.cache, slice(self.cached, total)):
            step.call()
        self.alike = self.alike if self.cached else 0
        for unneeded in self.holds.advance(total) if self.sliding else ():
            for name, values in self.cache.items():
                if self.windows[layer_of(name)]:
                    let_go(values[:, :, unneeded])
        self.top = step.top
        return step.logits

    def parts(self, name: str) -> list[slice]:
        """The parts of the cached tokens that a cache holds."""
        return self.holds.parts(self.cached) if self.windows[layer_of(name)] else [slice(0, self.cached)]

    def read(self, prompt: np.ndarray) -> None:
        assert self.encoder
        batch, count = prompt.shape
        feeds = dict(
            tokens=prompt,
            positions=np.tile(np.arange(count), (batch, 1)),
            last_position=np.full(batch, count - 1, np.int32),
            total_length=np.array([count], np.int32),
        )
        with foreign("ONNX Runtime failed"):
            values = self.encoder.run(None, {wanted.name: feeds[wanted.name] for wanted in self.encoder.get_inputs()})
        names = [output.name for output in self.encoder.get_outputs()]
        self.memory, self.steps = dict(zip(names, values, strict=True)), {}

    @property
    def has_int8_cache(self) -> bool:
        return bool(self.scales.values)

    def use_int8_from(self, length: int) -> None:
        self.long_from, self.after = length, 0

    def allow_int8(self, allowed: bool) -> None:
        self.long_from, self.after = (int8_cache.LONG if allowed else int8_cache.NEVER), int8_cache.AFTER
        with suppress(OSError):  # a read-only folder
            mark = self.folder / int8_cache.ALLOWED
            mark.touch() if allowed else mark.unlink(missing_ok=True)

    def choose_cache(self, count: int) -> None:
        """Convert the caches to int8 when many single tokens follow a long text, and back for a part of a prompt."""
        if self.held == "bytes_" and self.after and self.gain.missed:
            self.long_from = int8_cache.NEVER
        if self.held == "bytes_" and (count > FEW or self.long_from == int8_cache.NEVER):
            self.convert("bytes_", "past_")
        elif self.held == "past_" and self.scales.values and self.cached >= self.long_from and self.single > self.after:
            begun = time.monotonic()
            self.convert("past_", "bytes_")
            self.gain.converted(time.monotonic() - begun)

    def convert(self, before: str, after: str) -> None:
        """Convert the caches from prefix `before` to prefix `after`, one by one, to save memory."""
        caches, rows, capacity, length = self.cache, self.rows, self.capacity, self.cached
        self.cache, self.rows, self.capacity, self.cached = {}, 0, 0, 0  # in case memory runs out
        self.steps, self.buffers, made = {}, {}, {}
        for name in list(caches):
            values, to = caches.pop(name), name.replace(before, after)
            made[to] = self.make_room(to, values.shape)
            seen = values[:, :, :length]
            converted = self.scales.round(to, seen) if after == "bytes_" else self.scales.restore(name, seen)
            made[to][:, :, :length] = converted
        self.held, self.cache, self.rows, self.capacity, self.cached = after, made, rows, capacity, length
        self.buffers = made

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.alike, self.single = min(self.alike, self.cached), 0
        self.alike_unused = min(self.alike_unused, self.cached)
        self.holds.go_back(self.cached)
        if not self.cached and self.held == "bytes_":
            self.held, self.cache, self.buffers, self.rows, self.capacity, self.steps = "past_", {}, {}, 0, 0, {}

    def take_rows(self, parents: list[int]) -> None:
        if parents == list(range(self.rows)):
            return
        if self.memory:
            self.memory, self.steps = {name: values[parents] for name, values in self.memory.items()}, {}
        if self.has_room(len(parents)):
            self.move(parents)
        else:
            self.resize(parents, self.capacity)
        self.alike = self.cached if len(set(parents)) == 1 else self.alike

    def has_room(self, rows: int) -> bool:
        """Whether the buffers have `rows` rows, and not so many more that they are a waste."""
        there = next((len(values) for values in self.buffers.values()), self.rows)
        return rows == there or (rows < there and sum(values.nbytes for values in self.buffers.values()) <= SPARE)

    def move(self, parents: Sequence[int]) -> None:
        """Copy rows within the buffers, leaving out the tokens that they have in common."""
        alike = self.cached if self.rows == 1 else self.alike
        unused = list(range(self.rows, len(parents)))
        moved = [row for row, parent in enumerate(parents[: self.rows]) if row != parent]
        for rows, shared in (unused, min(self.alike_unused, alike)), (moved, alike):  # sources are read first
            sources = [parents[row] for row in rows]
            for name, values in self.buffers.items() if rows else ():
                for part in self.parts(name):
                    differing = slice(max(part.start, shared), part.stop)
                    values[rows, :, differing] = values[sources, :, differing]
        if len(parents) == self.rows:
            for values in self.own_states.values():
                values[moved] = values[[parents[row] for row in moved]]
            return
        self.own_states = {name: values[list(parents)] for name, values in self.own_states.items()}
        self.alike_unused = min(self.alike_unused, alike) if len(parents) < self.rows else self.alike_unused
        self.use(len(parents))

    def use(self, rows: int) -> None:
        """Use the first `rows` rows of the buffers."""
        self.rows, self.steps = rows, {}  # they hold references to the caches
        self.cache = {name: values[:rows] for name, values in self.buffers.items()}

    def states(self) -> States:
        return {name: values.copy() for name, values in self.own_states.items()}

    def put(self, states: States) -> None:
        for name, values in self.own_states.items():
            values[:] = states[name]

    def export(self, row: int) -> KeyValues | None:
        if self.whole_prompts or self.border:
            return None
        found = {name: values[row, :, self.parts(name)[-1]] for name, values in self.cache.items()}
        if self.held == "past_":
            return found | exported(self.own_states, row, self.cached) | export_begin(self.holds.begin)
        return {name.replace("bytes_", "past_"): self.scales.restore(name, x[None])[0] for name, x in found.items()}

    def serves(self, found: KeyValues, length: int) -> bool:
        return self.holds.serves(found, length)

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rewind(0)
        self.reserve(1, len(tokens))
        self.cached, self.held_rows, self.top, self.holds.begin = len(tokens), 1, None, read_begin(found)
        for name, values in self.cache.items():
            part = self.parts(name)[-1]
            values[0, :, part] = found[name][:, : part.stop - part.start]
            if part.start:
                let_go(values[:, :, : part.start])
        for name, values in self.own_states.items():
            values[0] = found[name]

    def open_batch(self) -> Batch | None:
        if self.whole_prompts or self.border:
            return None
        batch = RowsBatch(self)
        self.batches.add(batch)
        return batch

    def adapt(self) -> None:
        """Reload the graph with other thread settings when other processes begin or stop using the cores.

        ONNX Runtime fixes these at load; changes are at least five load times apart. A graph that was deleted or
        replaced on disk stays open as it is.
        """
        passed = time.monotonic() - self.neighbours.start
        if passed < self.patience:
            return
        others, computing, self.computing = self.neighbours.cores(), self.computing, 0.0
        if computing < passed / 2:  # while we are idle, others take nothing from us
            return
        crowded = others > (0.2 if self.crowded else 0.5)
        if crowded != self.crowded and self.written() == self.opened:
            self.crowded, self.steps = crowded, {}
            for batch in self.batches:
                batch.steps = {}
            del self.runtime, self.encoder  # before loading, to have one copy of the weights
            self.load(CROWDED if crowded else ALONE)

    def reserve(self, batch: int, length: int) -> None:
        """Make room for `length` tokens in `batch` rows."""
        length, self.expected = max(length, self.expected), 0
        if not self.cached and length <= self.capacity and batch != self.rows and self.has_room(batch):
            self.own_states = self.new_states(batch)
            self.use(batch)
        elif batch != self.rows or length > self.capacity:
            room = max(FIRST_CAPACITY, 1 << (length - 1).bit_length())
            self.resize(range(batch), min(self.context_length, room))

    def out_of_sight(self, length: int) -> dict[int, int]:
        """For each window, how many of the first of `length` tokens can be hidden from the graph."""
        return out_of_sight(length, self.unseen)

    def make_room(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A cache of this name and shape (rows, kv_heads, capacity, width), of zeros."""
        kind = np.int8 if name.startswith("bytes_") else np.float32
        return make_room(shape, kind, self.windows[layer_of(name)])

    def resize(self, parents: Sequence[int], capacity: int) -> None:
        """Reallocate every buffer for rows `parents` and `capacity` tokens, one by one, to save memory."""
        before, length = self.cache if self.cached else {}, self.cached
        self.steps, self.buffers, fresh = {}, {}, {}  # they hold references to the caches
        parts = {name: self.parts(name) for name in before}
        states = self.new_states(len(parents))
        for name, values in self.own_states.items() if length else ():
            states[name][:] = values[list(parents)]
        self.own_states = states
        self.cache, self.rows, self.capacity, self.cached = {}, 0, 0, 0  # in case memory runs out
        for name, shape in self.shapes(self.held).items():
            fresh[name] = self.make_room(name, (len(parents), shape[1], capacity, shape[3]))
            for part in parts.get(name, ()):
                fresh[name][:, :, part] = before[name][list(parents), :, part]
            before.pop(name, None)
        self.cache, self.rows, self.capacity, self.cached = fresh, len(parents), capacity, length
        self.buffers, self.alike_unused = dict(fresh), length

    def new_states(self, rows: int) -> dict[str, np.ndarray]:
        """States of `rows` rows that have read nothing."""
        return {name: np.zeros((rows, *shape[1:]), np.float32) for name, shape in self.shapes("state_").items()}
