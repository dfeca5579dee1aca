"""Attention of a single token to a long text: the heads that share keys are the rows of one product."""

import os
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from backends.decoder import Attention
from backends.onnx.graph import FUSED, Graph
from backends.processor import cores

LONG = 512
"""Tokens of a text from which this is the quicker way."""


def parts(a: Attention) -> int:
    """Into how many parts the heads of a group are cut, so that each core has one; every part reads the keys."""
    group, wanted = a.heads // a.kv_heads, cores() or os.cpu_count() or 1
    return next((n for n in range(1, group) if group % n == 0 and n * a.kv_heads >= wanted), group)


class Rows:
    """Writes a layer's attention in two ways, for a token and for more of them; what layers share is written once.

    GroupQueryAttention computes each head by itself, and reads its keys again. Told that the heads of a group are
    tokens of a text without an order, whose keys are all in the cache, it computes them in one product.
    """

    def __init__(self, graph: Graph):
        self.graph, self.node, self.numbers, self.once = graph, graph.node, graph.numbers, graph.once

    def attend(
        self,
        a: Attention,
        width: int,
        inputs: dict[str, str],
        outputs: list[str],
        together: Callable[[list[str]], list[str]],
    ) -> None:
        """Append what `together` writes, which has these inputs and outputs, and for a token the quicker way."""
        plain = a.causal and not (a.window or a.softcap or a.alibi or a.buckets or inputs["head_sink"])
        if not plain or parts(a) == a.heads // a.kv_heads:
            together(outputs)
            return
        long = max(LONG, a.heads // a.kv_heads)  # fewer keys than rows are refused
        condition = self.once(f"step_after_{long}", lambda: self.condition(long))
        here = self.once("here", lambda: self.node("Cast", "last_position", to=TensorProto.INT64))
        position = inputs["position_ids"] or self.once(
            "position", lambda: self.node("Unsqueeze", here, self.numbers(-1))
        )
        names = [f"{name}_of_a_token" for name in outputs], [f"{name}_of_more" for name in outputs]
        self.graph.choose(
            condition,
            lambda: self.of_a_token(a, width, inputs | {"here": here, "position_ids": position}, names[0]),
            lambda: together(names[1]),
            outputs,
        )

    def condition(self, long: int) -> str:
        """Whether there is a single token, in a single row, of a text that is `long`."""
        alone = self.node("Equal", self.node("Size", "tokens"), self.graph.number(1))
        length = self.node("Squeeze", "total_length")
        enough = self.node("GreaterOrEqual", length, self.graph.constant(f"long_{long}", np.array(long, np.int32)))
        return self.node("And", alone, enough)

    def of_a_token(self, a: Attention, width: int, inputs: dict[str, str], outputs: list[str]) -> list[str]:
        """Turn and cut the heads, write key and value into the caches, and attend: outputs as GroupQueryAttention."""
        attended, *presents = outputs
        caches = [inputs["past_key"], inputs["past_value"]]
        if presents:
            q, k, v = self.turned(a, width, inputs)
            for x, past, present in zip((k, v), caches, presents, strict=True):
                written = self.node("Reshape", x, self.numbers(0, a.kv_heads, 1, width))
                self.graph.node_with("TensorScatter", [past, written, inputs["here"]], [present], axis=2)
            caches = presents
        else:
            q = self.rotate(inputs["query"], a.heads, inputs) if a.rope else inputs["query"]
        heads, group = a.kv_heads * parts(a), a.heads // a.kv_heads // parts(a)
        q = self.swapped(q, heads, group, width)
        none = self.graph.constant(f"no_keys_{a.kv_heads}_{width}", np.zeros((1, 0, a.kv_heads * width), np.float32))
        how = dict(num_heads=heads, kv_num_heads=a.kv_heads, scale=a.scale, causal=0)
        known = [q, none, none, *caches, inputs["last_position"], inputs["total_length"]]
        [found] = self.graph.node_with("GroupQueryAttention", known, [attended + "_rows"], FUSED, **how)
        by_row = self.node("Reshape", found, self.numbers(0, group, heads, width))
        turned = self.node("Transpose", by_row, perm=[0, 2, 1, 3])
        self.graph.node_with("Reshape", [turned, self.numbers(0, 1, a.heads * width)], [attended])
        return outputs

    def swapped(self, q: str, heads: int, group: int, width: int) -> str:
        """From queries (1, 1, heads group width) to (1, group, heads width)."""
        by_head = self.node("Reshape", q, self.numbers(0, heads, group, width))
        turned = self.node("Transpose", by_head, perm=[0, 2, 1, 3])
        return self.node("Reshape", turned, self.numbers(0, group, heads * width))

    def turned(self, a: Attention, width: int, inputs: dict[str, str]) -> list[str]:
        """Queries, keys and values apart, the former two turned by their position."""
        q, k, v = inputs["query"], inputs["key"], inputs["value"]
        if a.rope and k:
            return [self.rotate(q, a.heads, inputs), self.rotate(k, a.kv_heads, inputs), v]
        if k:
            return [q, k, v]
        if not a.rope:
            return self.split(q, width, a.heads, a.kv_heads, a.kv_heads)
        both, v = self.split(q, width, a.heads + a.kv_heads, a.kv_heads)
        return [*self.split(self.rotate(both, a.heads + a.kv_heads, inputs), width, a.heads, a.kv_heads), v]

    def rotate(self, x: str, heads: int, inputs: dict[str, str]) -> str:
        tables = inputs["cos"], inputs["sin"]
        return self.node("RotaryEmbedding", x, inputs["position_ids"], *tables, domain=FUSED, num_heads=heads)

    def split(self, x: str, width: int, *heads: int) -> list[str]:
        sizes = self.numbers(*(count * width for count in heads))
        names = [f"part_{self.graph.made}_{place}" for place in range(len(heads))]
        return self.graph.node_with("Split", [x, sizes], names, axis=-1)
