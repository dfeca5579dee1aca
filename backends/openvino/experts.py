"""Mixtures of experts, with OpenVINO's grouped matrix product, which reads only the experts that some token chose."""

from collections.abc import Callable

import numpy as np
from openvino import opset15 as op
from openvino import opset17

from backends.decoder import Clamped, ExpertMatrices, Experts, Weight
from backends.openvino.matrix import stack
from backends.openvino.nodes import Node, integers, number, scalar
from backends.openvino.weights_file import WeightsFile


def clamped_gate(gate: Node, up: Node, how: Clamped) -> Node:
    """The clamped gate of `Clamped`, for rows (N, F)."""
    least = float(np.finfo(np.float32).min)
    gate, up = op.clamp(gate, least, how.limit), op.clamp(up, -how.limit, how.limit)
    opened = op.multiply(gate, op.sigmoid(op.multiply(gate, scalar(how.alpha))))
    return op.multiply(opened, op.add(up, scalar(1)))


class Mixture:
    """The experts of a model, whose matrices are written to `file`."""

    def __init__(self, experts: Experts, hidden_size: int, file: WeightsFile):
        self.of, self.hidden_size, self.file = experts, hidden_size, file

    def mix(
        self,
        x: Node,
        logits: Node,
        bias: Weight | None,
        gate: Callable[[list[Node]], Node],
        parts: tuple[ExpertMatrices, ExpertMatrices],
    ) -> Node:
        """The weighted sum of the chosen experts' outputs for x (B, T, H).

        There is a row for each token and expert that it chose, sorted by expert.
        """
        gate_up, down = parts
        chosen, shares = self.choose(op.reshape(logits, integers(-1, self.of.count), False), bias)
        flat = op.reshape(chosen, integers(-1), False)
        count = op.squeeze(op.shape_of(flat), integers(0))
        experts, order = op.topk(flat, count, 0, "min", "value", index_element_type="i64").outputs()
        ends = op.search_sorted(experts, integers(*range(self.of.count)), True, "i32")
        tokens = op.reshape(x, integers(-1, self.hidden_size), False)
        rows = op.gather(tokens, op.divide(order, number(self.of.chosen)), number(0))
        gated = op.split(self.product(rows, gate_up, experts, ends), number(1), 2).outputs()
        made = self.product(gate(gated), down, experts, ends)
        places = op.scatter_update(order, order, op.range(number(0), count, number(1), "i64"), number(0))
        made = op.reshape(op.gather(made, places, number(0)), integers(-1, self.of.chosen, self.hidden_size), False)
        mixed = op.reduce_sum(op.multiply(made, op.unsqueeze(shares, integers(2))), integers(1), False)
        return op.reshape(mixed, op.shape_of(x), False)

    def product(self, rows: Node, part: ExpertMatrices, experts: Node, ends: Node) -> Node:
        """Each row times its expert's matrix, plus its bias."""
        product = opset17.grouped_matmul(rows, stack(part, self.file), ends)
        if part[0].bias is None:
            return product
        biases = np.stack([np.asarray(weight.bias, np.float32) for weight in part])
        return op.add(product, op.gather(op.constant(biases), experts, number(0)))

    def choose(self, logits: Node, bias: Weight | None) -> tuple[Node, Node]:
        """Each token's experts by logits (N, count), and their shares: (N, chosen) each."""
        experts = self.of
        if experts.scores == "sparsemixer":
            return self.choose_one_by_one(logits)
        scores = op.softmax(logits, -1) if experts.scores == "softmax" else op.sigmoid(logits)
        choice = scores
        if bias:
            choice = op.add(scores, op.constant(np.asarray(bias.values, np.float32)))
        if experts.groups > 1:
            choice = self.in_groups(choice)
        chosen = op.topk(choice, number(experts.chosen), 1, "max", "value", index_element_type="i64").output(1)
        shares = op.gather_elements(scores, chosen, 1)
        if experts.normalised:
            shares = op.divide(shares, op.reduce_sum(shares, integers(1), True))
        return chosen, op.multiply(shares, scalar(experts.scale))

    def choose_one_by_one(self, logits: Node) -> tuple[Node, Node]:
        """The same for sparsemixer."""
        count, nearness = self.of.chosen, scalar(self.of.nearness)
        found = op.topk(logits, number(count), 1, "max", "value", index_element_type="i64")
        largest, others = op.unsqueeze(found.output(0), integers(2)), op.unsqueeze(logits, integers(1))
        below = op.subtract(largest, others)  # (N, chosen, count)
        near = op.less_equal(below, op.multiply(op.maximum(op.abs(others), largest), nearness))
        powers = op.exp(op.negative(op.relu(below)))
        powers = op.select(near, powers, scalar(0))
        before = np.arange(count, dtype=np.float32)[:, None]  # each expert chosen before adds 1 to the sum
        rest = op.subtract(powers, op.constant(before / self.of.count))  # after the sum the plugin takes a wrong one
        return found.output(1), op.divide(scalar(1), op.reduce_sum(rest, integers(2), False))

    def in_groups(self, choice: Node) -> Node:
        """The scores, with the lowest number in the groups that are not eligible."""
        count, groups = self.of.count, self.of.groups
        grouped = op.reshape(choice, integers(-1, groups, count // groups), False)
        best = op.topk(grouped, number(2), 2, "max", "value").output(0)
        sums = op.reduce_sum(best, integers(2), False)  # (N, groups)
        largest = op.topk(sums, number(self.of.chosen_groups), 1, "max", "value").output(0)
        allowed = op.greater_equal(sums, op.reduce_min(largest, integers(1), True))
        lowest = op.constant(np.float32(np.finfo(np.float32).min))
        kept = op.select(op.unsqueeze(allowed, integers(2)), grouped, lowest)
        return op.reshape(kept, integers(-1, count), False)
