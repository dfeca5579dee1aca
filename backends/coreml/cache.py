"""The graph's side of the three ways to keep keys and values (`Policy`)."""

from collections.abc import Mapping

import numpy as np

from backends.coreml.inputs import KINDS, Kind, Lowered, Policy, stacked_shape
from backends.coreml.tools import Var, mb


class Cache:
    """Keys and values of one function for `count` tokens, each (1, kv_heads, capacity, head_dim), float16."""

    def __init__(self, lowered: Lowered, inputs: Mapping[str, Var], count: int):
        self.layers, self.capacity = lowered.decoder.layers, lowered.capacity
        self.inputs, self.count = inputs, count
        self.fresh: dict[Kind, list[Var]] = {kind: [] for kind in KINDS}
        """What each layer has appended, (1, kv_heads, count, head_dim)."""

    def extend(self, kind: Kind, fresh: Var) -> Var:
        """Append the next layer's keys or values, and return all that is visible."""
        layer = len(self.fresh[kind])
        self.fresh[kind].append(fresh)
        return self.extended(kind, layer, fresh)

    def extended(self, kind: Kind, i: int, fresh: Var) -> Var:
        """Return what `extend` returns, for layer `i`."""
        raise NotImplementedError

    def prompt(self, i: int) -> tuple[Var, Var]:
        """Layer `i`'s keys and values of the prompt, from the encoder."""
        raise NotImplementedError

    def outputs(self) -> list[Var]:
        """What a prefill returns: its last results, so that all else is computed."""
        return [named(self.fresh["value"][-1], "last_value")]


class Slices(Cache):
    """States in which a slice is replaced, at a position known at run time."""

    def __init__(self, lowered: Lowered, inputs: Mapping[str, Var], count: int):
        super().__init__(lowered, inputs, count)
        _, heads, _, head_dim = stacked_shape(self.layers, self.capacity)
        start, stop = inputs["start"], mb.add(x=inputs["start"], y=np.int32(count))
        self.begin = mb.concat(values=[np.array([0, 0], np.int32), start, np.array([0], np.int32)], axis=0)
        self.end = mb.concat(values=[np.array([1, heads], np.int32), stop, np.array([head_dim], np.int32)], axis=0)

    def extended(self, kind: Kind, i: int, fresh: Var) -> Var:
        state = self.inputs[f"{kind}_{i}"]
        updated = mb.slice_update(x=mb.read_state(input=state), update=fresh, begin=self.begin, end=self.end)
        return mb.coreml_update_state(state=state, value=updated)


class OneHot(Cache):
    """States rewritten whole, with one-hot masks: `old * (1 - place) + new * place`."""

    def __init__(self, lowered: Lowered, inputs: Mapping[str, Var], count: int):
        super().__init__(lowered, inputs, count)
        taken = mb.reduce_sum(x=inputs["place"], axes=[-1], keep_dims=True)  # (1, 1, capacity, 1)
        self.kept = mb.sub(x=np.float16(1), y=taken)

    def extended(self, kind: Kind, i: int, fresh: Var) -> Var:
        state = self.inputs[f"{kind}_{i}"]
        kept = mb.mul(x=mb.read_state(input=state), y=self.kept)
        placed = mb.matmul(x=self.inputs["place"], y=fresh)
        return mb.coreml_update_state(state=state, value=mb.add(x=kept, y=placed))


class InAndOut(Cache):
    """No states: the past of all layers is an input, and this step's keys and values are outputs.

    With an encoder, its keys and values of the prompt are inputs too.
    """

    def extended(self, kind: Kind, i: int, fresh: Var) -> Var:
        past = self.layer_of(f"past_{kind}s", i)
        return mb.concat(values=[past, fresh], axis=2)  # (1, kv_heads, capacity + count, head_dim)

    def layer_of(self, name: str, i: int) -> Var:
        """Layer `i`'s part of an input for all layers."""
        whole = self.inputs[name]
        return mb.slice_by_index(x=whole, begin=[i, 0, 0, 0], end=[i + 1, *whole.shape[1:]])

    def prompt(self, i: int) -> tuple[Var, Var]:
        return self.layer_of("memory_keys", i), self.layer_of("memory_values", i)

    def outputs(self) -> list[Var]:
        return [mb.concat(values=self.fresh[kind], axis=0, name=f"new_{kind}s") for kind in KINDS]


class Reading(Cache):
    """The encoder's attention: every token sees every other, and nothing is cached."""

    def extended(self, kind: Kind, i: int, fresh: Var) -> Var:
        return fresh


CACHES: Mapping[Policy, type[Cache]] = {"slice": Slices, "onehot": OneHot, "io": InAndOut}


def named(value: Var, name: str) -> Var:
    """Name a value that a function returns."""
    value.set_name(name)
    return value
