"""Change a lowered decoder to paged caches, with the plugin's own attention for many requests."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import openvino
from openvino import Type
from openvino import opset15 as op
from openvino.op import _PagedAttentionExtension as PagedAttention  # its only name

from backends.openvino.nodes import Node, integers, number, outputs, parameter, vector

SEEN = ("past_lens", "block_indices", "block_indices_begins", "max_context_len")
"""Inputs that tell which pages of each row a layer reads, once for each window."""


def seen(window: int) -> list[str]:
    """The names of those inputs for a window; 0: none."""
    return [f"{name}.{window}" if window else name for name in SEEN]


def page(model: openvino.Model, layers: Sequence[tuple[int, Sequence[float]]]) -> None:
    """Replace each attention and its states by paged attention; `layers` are their windows and ALiBi slopes.

    All rows' tokens follow each other in one row, `tokens` (1, N). The caches become inputs `key_cache.0`,
    `value_cache.0`, ..., with shapes and types of the plugin's choice. Layers that share keys and values each write
    them to the same pages, which is redundant but harmless.
    """
    kept = {node.get_friendly_name(): node for node in model.get_parameters()}
    starts = parameter("subsequence_begins", Type.i32, -1)
    shapes: list[tuple[int, ...]] = [(-1,), (-1,), (-1,), ()]
    counts = {
        window: [parameter(name, Type.i32, *shape) for name, shape in zip(seen(window), shapes, strict=True)]
        for window in dict.fromkeys(window for window, _ in layers)
    }
    attentions = [node for node in model.get_ordered_ops() if node.get_type_name() == "ScaledDotProductAttention"]
    caches: dict[str, list[Node]] = {}
    masks = {(window, tuple(slopes)): [op.constant(np.int32(window)), vector(slopes)] for window, slopes in layers}
    for i, (node, (window, slopes)) in enumerate(zip(attentions, layers, strict=True)):
        query, keys, values = node.input_value(0), new(node.input_value(1)), new(node.input_value(2))
        made_by = keys.get_node().get_friendly_name()
        key, value = caches.setdefault(
            made_by, [parameter(f"{kind}_cache.{i}", Type.dynamic, -1, -1, -1, -1) for kind in ("key", "value")]
        )
        past, pages, begins, longest = counts[window]
        places = [key, value, past, starts, pages, begins]
        facts = [node.input_value(4).get_node(), *masks[window, tuple(slopes)]]
        sinks = node.input_value(5) if node.get_input_size() > 5 else op.constant(np.zeros((0, 0, 0, 0), np.float32))
        others = [longest, *beside(sinks)]
        rows = [flat(x) for x in (query, keys, values)]
        paged = PagedAttention(outputs([*rows, *places, *facts, *others]))
        _, heads, _, head_dim = keys.get_partial_shape()
        for kind in "k", "v":
            paged.get_rt_info()[f"num_{kind}_heads"] = heads.get_length()
            paged.get_rt_info()[f"{kind}_head_size"] = head_dim.get_length()
        merged = user(user(node))  # (B, T, heads head_dim)
        merged.output(0).replace(op.unsqueeze(paged.output(0), number(0)).output(0))
    for assign in model.get_sinks():
        model.remove_sink(assign)
    for name in "parents", "key_positions":
        model.remove_parameter(kept[name])
    model.add_parameters([starts, *chain.from_iterable(counts.values()), *chain.from_iterable(caches.values())])


def new(x: Node) -> Node:
    """The new keys or values alone, (1, kv_heads, N, head_dim), from their concatenation with the cache."""
    node = x.get_node()
    while node.get_type_name() != "Concat":
        node = node.input_value(0).get_node()
    return node.input_value(1)


def flat(x: Node) -> Node:
    """(1, heads, N, head_dim) to (N, heads head_dim), without the transposition that led to the former."""
    _, heads, _, head_dim = x.get_partial_shape()
    if x.get_node().get_type_name() == "Transpose":
        x = x.get_node().input_value(0)
        x = x.get_node().input_value(0) if x.get_node().get_type_name() == "Reshape" else x
    else:
        x = op.transpose(x, integers(0, 2, 1, 3))
    return op.reshape(x, integers(-1, heads.get_length() * head_dim.get_length()), False)


def user(node: Node) -> Node:
    """The only node that reads the output of `node`."""
    [target] = node.output(0).get_target_inputs()
    return target.get_node()


def beside(sinks: Node) -> list[Node]:
    """The remaining, mostly empty inputs of the operation: scores, rotated caches, sparse attention, sinks, ..."""

    def none(kind: type, *shape: int) -> Node:
        return op.constant(np.zeros(shape, kind))

    turned = [none(np.int32, 0), none(np.int32, 0), none(np.float32, 0)]
    sparse = [none(np.float32, 0), none(np.int32), none(np.int32)]
    evicted = [none(np.int32), *(none(np.int32, 0) for _ in range(3))]
    trees = [none(np.int32, 0), none(np.uint8, 0), none(np.int32, 0)]
    return [none(np.int32, 0), *turned, *sparse, sinks, *evicted, *trees]
