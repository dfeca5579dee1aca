"""Attention of a single token to a long text: query heads that share keys become the rows of one product."""

import os
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from backends.decoder import Layer
from backends.onnx.graph import FUSED, Graph
from backends.processor import cores

LONG = 512
"""Length of a text from which this is faster."""


def parts(layer: Layer) -> int:
    """How many parts the heads of a group are cut into so that each core has one; every part reads the keys."""
    group, wanted = layer.heads // layer.kv_heads, cores() or os.cpu_count() or 1
    return next((n for n in range(1, group) if group % n == 0 and n * layer.kv_heads >= wanted), group)


class Rows:
    """Writes a layer's attention in two ways, for one token and for several; what layers share is written once.

    GroupQueryAttention computes head by head, and reads the keys for each. If it is told that the heads of a group are
    tokens without an order, whose keys are all cached, it computes them in one product.
    """

    def __init__(self, graph: Graph):
        self.graph, self.node, self.numbers, self.once = graph, graph.node, graph.numbers, graph.once

    def attend(
        self,
        layer: Layer,
        width: int,
        inputs: dict[str, str],
        outputs: list[str],
        together: Callable[[list[str]], list[str]],
    ) -> None:
        """Append the attention that `together` writes, and a branch for a single token where that is faster."""
        special = layer.window or layer.softcap or layer.alibi or layer.buckets or inputs["head_sink"]
        if special or not layer.causal or parts(layer) == layer.heads // layer.kv_heads:
            together(outputs)
            return
        long = max(LONG, layer.heads // layer.kv_heads)  # the operation refuses fewer keys than rows
        condition = self.once(f"step_after_{long}", lambda: self.condition(long))
        here = self.once("here", lambda: self.node("Cast", "last_position", to=TensorProto.INT64))
        position = inputs["position_ids"] or self.once(
            "position", lambda: self.node("Unsqueeze", here, self.numbers(-1))
        )
        names = [f"{name}_of_a_token" for name in outputs], [f"{name}_of_more" for name in outputs]
        self.graph.choose(
            condition,
            lambda: self.of_a_token(layer, width, inputs | {"here": here, "position_ids": position}, names[0]),
            lambda: together(names[1]),
            outputs,
        )

    def condition(self, long: int) -> str:
        """Whether the call has one token, in one row, of a text of at least `long` tokens."""
        alone = self.node("Equal", self.node("Size", "tokens"), self.graph.number(1))
        length = self.node("Squeeze", "total_length")
        enough = self.node("GreaterOrEqual", length, self.graph.constant(f"long_{long}", np.array(long, np.int32)))
        return self.node("And", alone, enough)

    def of_a_token(self, layer: Layer, width: int, inputs: dict[str, str], outputs: list[str]) -> list[str]:
        """Attend one token: rotate and regroup heads, write the caches; outputs as GroupQueryAttention has them."""
        attended, *presents = outputs
        caches = [inputs["past_key"], inputs["past_value"]]
        if presents:
            q, k, v = self.turned(layer, width, inputs)
            for x, past, present in zip((k, v), caches, presents, strict=True):
                written = self.node("Reshape", x, self.numbers(0, layer.kv_heads, 1, width))
                self.graph.node_with("TensorScatter", [past, written, inputs["here"]], [present], axis=2)
            caches = presents
        else:
            q = self.rotate(inputs["query"], layer.heads, inputs) if layer.rope else inputs["query"]
        heads, group = layer.kv_heads * parts(layer), layer.heads // layer.kv_heads // parts(layer)
        q = self.swapped(q, heads, group, width)
        size = layer.kv_heads * width
        none = self.graph.constant(f"no_keys_{layer.kv_heads}_{width}", np.zeros((1, 0, size), np.float32))
        how = dict(num_heads=heads, kv_num_heads=layer.kv_heads, scale=layer.scale, causal=0)
        known = [q, none, none, *caches, inputs["last_position"], inputs["total_length"]]
        [found] = self.graph.node_with("GroupQueryAttention", known, [attended + "_rows"], FUSED, **how)
        by_row = self.node("Reshape", found, self.numbers(0, group, heads, width))
        turned = self.node("Transpose", by_row, perm=[0, 2, 1, 3])
        self.graph.node_with("Reshape", [turned, self.numbers(0, 1, layer.heads * width)], [attended])
        return outputs

    def swapped(self, q: str, heads: int, group: int, width: int) -> str:
        """Reorder queries from (1, 1, heads group width) to (1, group, heads width)."""
        by_head = self.node("Reshape", q, self.numbers(0, heads, group, width))
        turned = self.node("Transpose", by_head, perm=[0, 2, 1, 3])
        return self.node("Reshape", turned, self.numbers(0, group, heads * width))

    def turned(self, layer: Layer, width: int, inputs: dict[str, str]) -> list[str]:
        """Split queries, keys and values, and rotate queries and keys."""
        q, k, v = inputs["query"], inputs["key"], inputs["value"]
        if layer.rope and k:
            return [self.rotate(q, layer.heads, inputs), self.rotate(k, layer.kv_heads, inputs), v]
        if k:
            return [q, k, v]
        if not layer.rope:
            return self.split(q, width, layer.heads, layer.kv_heads, layer.kv_heads)
        heads = layer.heads + layer.kv_heads
        both, v = self.split(q, width, heads, layer.kv_heads)
        return [*self.split(self.rotate(both, heads, inputs), width, layer.heads, layer.kv_heads), v]

    def rotate(self, x: str, heads: int, inputs: dict[str, str]) -> str:
        tables = inputs["cos"], inputs["sin"]
        return self.node("RotaryEmbedding", x, inputs["position_ids"], *tables, domain=FUSED, num_heads=heads)

    def split(self, x: str, width: int, *heads: int) -> list[str]:
        sizes = self.numbers(*(count * width for count in heads))
        names = [f"part_{self.graph.made}_{place}" for place in range(len(heads))]
        return self.graph.node_with("Split", [x, sizes], names, axis=-1)
