"""Lower a decoder to a graph like that of optimum-intel's export, with the public names."""

from pathlib import Path

import numpy as np
import openvino
from openvino import opset15 as op

from backends.decoder import Decoder, Layer, Rope, Weight, Weights
from backends.forward import forward
from backends.openvino.lowering import MatrixState, Ops
from backends.openvino.nodes import Node, integers, named, number, parameter, scalar, vector
from backends.openvino.runtime import UNSEEN
from backends.quantize import PRECISIONS, Rounded

NAME = "openvino_model"
OURS = {"tokens": "input_ids", "positions": "position_ids", "parents": "beam_idx", "attention_mask": "attention_mask"}
"""Our operations' inputs by their public names."""


class PublicOps(Ops):
    """Operations on rows with positions and masks of their own, and with logits of every token.

    Masks and caches have the forms that OpenVINO recognises when it turns attention into paged attention
    (sdpa_to_paged_attention.cpp): a window is added to a query's position, and slopes are a factor.
    """

    def rotation(self, rope: Rope) -> tuple[Node, Node]:
        positions = op.unsqueeze(op.convert(self.positions, "f32"), integers(1, 3))  # (B, 1, T, 1)
        angle = op.multiply(positions, vector(np.array(rope.inverse_frequencies)))
        angle = op.concat([angle, angle], -1)
        amplitudes = vector(np.tile(rope.amplitudes, 2))
        return op.multiply(op.cos(angle), amplitudes), op.multiply(op.sin(angle), amplitudes)

    def cached(self, x: Node, name: str, layer: Layer) -> Node:
        kind, _, i = name.partition("_")
        return super().cached(x, f"past_key_values.{i}.{kind}present.{i}.{kind}", layer)

    def mask(self, layer: Layer, bias: Weight | None) -> Node:
        """The mask added to the scores, (B, 1 or heads, T, S)."""
        given = self.inputs["attention_mask"]
        count, total = (op.gather(op.shape_of(x), integers(1), number(0)) for x in (self.tokens, given))
        keys = op.range(number(0), op.squeeze(total), number(1), "i64")
        first = op.squeeze(op.subtract(total, count))
        queries = op.range(first, op.squeeze(total), number(1), "i64")
        queries = op.unsqueeze(queries, integers(0, 1, 3))  # (1, 1, T, 1)
        keys = op.unsqueeze(keys, integers(0, 1, 2))  # (1, 1, 1, S)
        seen = op.not_equal(op.unsqueeze(given, integers(1, 2)), integers(0))  # (B, 1, 1, S)
        before = op.less_equal(keys, queries)
        unseen = scalar(UNSEEN)
        if layer.window:
            recent = op.greater(keys, op.add(queries, number(-layer.window)))
            visible = op.bitwise_and(op.constant(np.array(True)), recent)
            visible = op.bitwise_and(op.bitwise_and(before, op.bitwise_and(visible, before)), seen)
            shape = op.shape_of(visible)
            chosen = op.select(op.broadcast(visible, shape), scalar(0), unseen)
            return op.slice(chosen, integers(0), integers(2**62), integers(1), integers(3))
        visible = op.logical_and(before, seen)
        if not layer.alibi:
            return op.select(visible, scalar(0), unseen)
        distance = op.convert(op.subtract(keys, queries), "f32")  # (1, 1, T, S)
        added = op.multiply(vector(np.array(layer.alibi)[None, :, None, None]), distance)
        for _ in range(2):
            added = op.reshape(added, op.shape_of(added), False)
        return op.select(op.logical_not(visible), unseen, added)

    def last(self, x: Node) -> Node:
        return x


class CacheOps(PublicOps):
    """The same with caches as inputs and outputs, which the caller keeps, and logits of the last tokens only."""

    def __init__(self, decoder: Decoder, inputs: dict[str, Node], matrices: MatrixState):
        super().__init__(decoder, inputs, matrices)
        self.pasts: list[Node] = []
        self.presents: list[Node] = []

    def cached(self, x: Node, name: str, layer: Layer) -> Node:
        kind, _, i = name.partition("_")
        shape = -1, layer.kv_heads, -1, layer.head_dim
        self.pasts.append(parameter(f"past_key_values.{i}.{kind}", np.float32, *shape))
        whole = named(op.concat([self.pasts[-1], x], 2), f"present.{i}.{kind}")
        self.presents.append(op.result(whole))
        return whole

    def last(self, x: Node) -> Node:
        start = op.multiply(self.inputs["last"], integers(-1))
        return op.slice(x, start, integers(2**62), integers(1), integers(1))


def export(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write openvino_model.xml and .bin to `folder`, one weight in memory at a time.

    Inputs: `input_ids` (B, T), `attention_mask` (B, S) of cached and new tokens, `position_ids` (B, T), and `beam_idx`
    (B,), the row that each row continues. Output: `logits` (B, T, vocab).
    """
    public = make_inputs() | {"beam_idx": parameter("beam_idx", np.int32, -1)}
    matrices = MatrixState(folder, NAME)
    ops = PublicOps(decoder, {ours: public[name] for ours, name in OURS.items()}, matrices)
    logits = forward(decoder, Rounded(weights, PRECISIONS[precision]), ops)
    model = openvino.Model([op.result(named(logits, "logits"))], ops.assigned, list(public.values()), "decoder")
    matrices.file.finish(model)


def export_with_caches(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write model.xml and model.bin to `folder`, with the inputs and outputs of backends.onnx.stock."""
    public = make_inputs() | {"last": parameter("last", np.int64, 1)}
    matrices = MatrixState(folder)
    inputs = {ours: public[name] for ours, name in OURS.items() if name in public}
    ops = CacheOps(decoder, inputs | {"last": public["last"]}, matrices)
    logits = forward(decoder, Rounded(weights, PRECISIONS[precision]), ops)
    outputs = [op.result(named(logits, "logits")), *ops.presents]
    matrices.file.finish(openvino.Model(outputs, [*public.values(), *ops.pasts], "decoder"))


def make_inputs() -> dict[str, Node]:
    """The inputs for tokens, their positions, and which keys they may see."""
    return {name: parameter(name, np.int64, -1, -1) for name in ("input_ids", "attention_mask", "position_ids")}
