"""Mixtures of experts, with kernels of ONNX Runtime that read only the experts that some token chose."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from backends.decoder import ExpertMatrices, Experts, Quantized, Weight
from backends.onnx import matrices
from backends.onnx.graph import FUSED, Graph
from backends.quantize import dequantize

Attributes = dict[str, Any]  # Any: numbers and names
SWIGLU: Attributes = dict(activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.0, activation_beta=0.0)
"""An activated gate times its neighbour, whose rows alternate."""


class Routing:
    """Appends the router: which experts each token chooses, and their shares."""

    def __init__(self, graph: Graph, experts: Experts):
        self.graph, self.node, self.experts = graph, graph.node, experts
        self.numbers, self.scalar = graph.numbers, graph.scalar

    def shares(self, logits: str, bias: Weight | None) -> str:
        """The share of every expert (N, count), 0 for those not chosen."""
        experts = self.experts
        if experts.scores == "sparsemixer":
            return self.spread(logits, *self.one_by_one(logits))
        scores = self.node("Softmax", logits, axis=-1) if experts.scores == "softmax" else self.node("Sigmoid", logits)
        choice = scores
        if bias:
            assert isinstance(bias.values, np.ndarray)  # never rounded
            choice = self.node("Add", scores, self.graph.constant(bias.name, bias.values))
        if experts.groups > 1:
            choice = self.in_groups(choice)
        chosen = self.largest(choice, experts.chosen)[1]
        shares = self.node("GatherElements", scores, chosen, axis=1)
        if experts.normalised:
            shares = self.node("Div", shares, self.node("ReduceSum", shares, self.numbers(1), keepdims=1))
        if experts.scale != 1:
            shares = self.node("Mul", shares, self.scalar(experts.scale))
        return self.spread(scores, chosen, shares)

    def spread(self, like: str, chosen: str, shares: str) -> str:
        """Scatter the shares (N, chosen) of the chosen experts into zeros (N, count), shaped `like`."""
        return self.node("ScatterElements", self.node("Mul", like, self.scalar(0.0)), chosen, shares, axis=1)

    def one_by_one(self, logits: str) -> tuple[str, str]:
        """The experts chosen by sparsemixer, and their shares: (N, chosen) each."""
        node, found = self.node, self.largest(logits, self.experts.chosen)
        largest, others = node("Unsqueeze", found[0], self.numbers(2)), node("Unsqueeze", logits, self.numbers(1))
        limit = node("Mul", node("Max", node("Abs", others), largest), self.scalar(self.experts.nearness))
        below = node("Sub", largest, others)  # (N, chosen, count)
        powers = node("Exp", node("Neg", node("Relu", below)))
        powers = node("Where", node("LessOrEqual", below, limit), powers, self.scalar(0.0))
        before = self.graph.constant("chosen_before", np.arange(self.experts.chosen, dtype=np.float32))
        total = node("Sub", node("ReduceSum", powers, self.numbers(2), keepdims=0), before)  # less those chosen before
        return found[1], node("Reciprocal", total)

    def in_groups(self, choice: str) -> str:
        """The scores, with minus infinity in the groups that are not eligible."""
        count, groups = self.experts.count, self.experts.groups
        grouped = self.node("Reshape", choice, self.numbers(-1, groups, count // groups))
        sums = self.node("ReduceSum", self.largest(grouped, 2)[0], self.numbers(2), keepdims=0)  # (N, groups)
        least = self.largest(sums, self.experts.chosen_groups)[0]
        border = self.node("ReduceMin", least, self.numbers(1), keepdims=1)
        allowed = self.node("Unsqueeze", self.node("GreaterOrEqual", sums, border), self.numbers(2))
        kept = self.node("Where", allowed, grouped, self.scalar(float("-inf")))
        return self.node("Reshape", kept, self.numbers(-1, count))

    def largest(self, values: str, count: int) -> list[str]:
        """The largest `count` values of the last axis, and their indices."""
        outputs = [f"{kind}_{self.graph.made}" for kind in ("largest", "places")]
        return self.graph.node_with("TopK", [values, self.numbers(count)], outputs, axis=-1)


def mix(
    graph: Graph,
    experts: Experts,
    x: str,
    logits: str,
    bias: Weight | None,
    parts: tuple[ExpertMatrices, ExpertMatrices],
) -> str:
    """Append the mixture of the chosen experts' outputs for x (B, T, H); `parts` are gate_up and down."""
    routing = Routing(graph, experts)
    logits = graph.node("Reshape", logits, graph.numbers(-1, experts.count))  # (N, count)
    plain = experts.plain and bias is None
    shares = "" if plain else routing.shares(logits, bias)
    how: Attributes = dict(k=experts.chosen, normalize_routing_weights=1, **SWIGLU)
    if clamped := experts.clamped:
        how |= dict(activation_alpha=clamped.alpha, activation_beta=1.0, swiglu_limit=clamped.limit)
    bits, block = common_block(*parts)
    if block:
        gate_up, down = (rounded_stack(graph, part, block) for part in parts)
        inputs = [x, shares or logits, *gate_up[:2], biases(graph, parts[0]), *down[:2], biases(graph, parts[1])]
        inputs += ["", "", "", gate_up[2], down[2], "", shares]
        how |= dict(expert_weight_bits=bits, block_size=block, accuracy_level=4)
        how["normalize_routing_weights"] = int(plain)
        return graph.node_with("QMoE", inputs, [f"mixed_{graph.made}"], FUSED, **how)[0]
    stacks = [
        graph.stack(part.name, (np.asarray(dequantize(one.values), np.float32) for one in ordered(part)), part.count)
        for part in parts
    ]
    inputs = [x, logits if plain else graph.node("Log", shares), stacks[0], biases(graph, parts[0])]
    inputs += [stacks[1], biases(graph, parts[1])]
    mixed = graph.node_with("MoE", inputs, [f"mixed_{graph.made}"], FUSED, **how)[0]
    if plain:
        return mixed
    # The kernel takes logarithms, and applies a softmax over the chosen ones.
    total = graph.node("ReduceSum", shares, graph.numbers(1), keepdims=0)
    shape = graph.node("Shape", x, end=2)
    total = graph.node("Unsqueeze", graph.node("Reshape", total, shape), graph.numbers(2))
    return graph.node("Mul", mixed, total)


def ordered(part: ExpertMatrices) -> Iterator[Weight]:
    """Yield the matrices, the rows of gate and up alternating as the kernels take them."""
    for weight in part:
        yield weight.with_rows(alternated) if part.role == "gate_up_proj" else weight


def alternated(rows: np.ndarray) -> np.ndarray:
    """Alternate the rows of the first and of the second half."""
    return rows.reshape(2, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def common_block(*parts: ExpertMatrices) -> tuple[int, int]:
    """Bits and block size that all matrices share; 0 where they must be float32."""
    found = [part[0].values for part in parts]
    quantized = [values for values in found if isinstance(values, Quantized) and values.bits in (4, 8)]
    bits = {values.bits for values in quantized}
    if len(quantized) < len(found) or len(bits) > 1:
        return 0, 0
    return bits.pop(), min(map(matrices.block_of, quantized))


def rounded_stack(graph: Graph, part: ExpertMatrices, block: int) -> list[str]:
    """Add matrices (count, out, bytes), scales (count, out, blocks) and zero points of all experts."""
    rest: list[tuple[np.ndarray, np.ndarray | None]] = []

    def numbers() -> Iterator[np.ndarray]:
        for weight in ordered(part):
            assert isinstance(weight.values, Quantized)  # as the first one is
            matrix, scales, zeros = matrices.unsigned_parts(weight.values, block)
            rest.append((scales, zeros))
            yield matrix

    name = graph.stack(part.name, numbers(), part.count)
    scales = graph.stack(part.name + ".scales", (scales for scales, _ in rest), part.count)
    found = [zeros for _, zeros in rest if zeros is not None]
    return [name, scales, graph.stack(part.name + ".zeros", found, part.count) if found else ""]


def biases(graph: Graph, part: ExpertMatrices) -> str:
    """Add the biases (count, out); "" if there are none."""
    if part[0].bias is None:
        return ""
    found = [weight.bias for weight in ordered(part) if weight.bias is not None]
    return graph.constant(part.name + ".bias", np.stack(found))
