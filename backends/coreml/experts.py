"""Mixtures of experts in MIL: the chosen experts' matrices are gathered, so that no others are read."""

from collections.abc import Callable

import numpy as np

from backends.coreml.stored import Stored
from backends.coreml.tools import Var, mb
from backends.decoder import Clamped, ExpertMatrices, Experts, Weight

LARGEST = np.float16(65504)


class Mixture:
    """The experts of one function; `constant` adds an array to it by name."""

    def __init__(self, experts: Experts, constant: Callable[[str, np.ndarray], Var]):
        self.of, self.constant = experts, constant

    def mix(
        self, x: Var, routed: tuple[Var, Var], gate: Callable[[Var, Var], Var], parts: tuple[ExpertMatrices, ...]
    ) -> Var:
        """The weighted sum of the chosen experts' (T, chosen) outputs for x (T, H); shares (T, chosen)."""
        chosen, shares = routed
        (length, hidden), count = x.shape, self.of.chosen
        places = mb.reshape(x=chosen, shape=[length * count])
        gate_up, bias = self.gathered(parts[0], places)  # (T chosen, 2 F, H)
        gate_up = mb.reshape(x=gate_up, shape=[length, count * 2 * self.of.size, hidden])
        rows = mb.matmul(x=mb.reshape(x=x, shape=[length, 1, hidden]), y=gate_up, transpose_y=True)
        rows = biased(mb.reshape(x=rows, shape=[length * count, 2 * self.of.size]), bias)
        rows = gate(*mb.split(x=rows, num_splits=2, axis=1))
        down, bias = self.gathered(parts[1], places)  # (T chosen, H, F)
        rows = mb.matmul(x=mb.reshape(x=rows, shape=[length * count, 1, self.of.size]), y=down, transpose_y=True)
        rows = biased(mb.reshape(x=rows, shape=[length * count, hidden]), bias)
        rows = mb.reshape(x=rows, shape=[length, count, hidden])
        weighed = mb.mul(x=rows, y=mb.reshape(x=shares, shape=[length, count, 1]))
        return mb.reduce_sum(x=weighed, axes=[1])

    def gathered(self, part: ExpertMatrices, places: Var) -> tuple[Var, Var | None]:
        """The matrices (N, out, in) and biases (N, out) of the experts at `places` (N,)."""
        assert isinstance(part.weights, Stored)
        found = part.weights.stacked(part)

        def at_places(kind: str, array: np.ndarray) -> Var:
            return mb.gather(x=self.constant(f"{part.name}.{kind}", array), indices=places, axis=0)

        bias = None if found.bias is None else at_places("bias", found.bias)
        matrices = at_places("data", found.data)
        if found.scale is None:
            return matrices, bias
        numbers = mb.cast(x=matrices, dtype="fp16")
        if found.data.dtype == np.uint8:
            numbers = nibbles(numbers)
        count, rows = numbers.shape[:2]
        columns, blocks = int(np.prod(numbers.shape[2:])), found.scale.shape[2]

        def of_blocks(x: Var) -> Var:
            return mb.reshape(x=x, shape=[count, rows, blocks, -1])

        numbers = of_blocks(numbers)
        if found.offset is not None:
            apart = found.offset.ndim > 0
            offset = of_blocks(mb.cast(x=at_places("offset", found.offset), dtype="fp16")) if apart else found.offset
            numbers = mb.sub(x=numbers, y=offset)
        numbers = mb.mul(x=numbers, y=of_blocks(at_places("scale", found.scale)))
        return mb.reshape(x=numbers, shape=[count, rows, columns]), bias

    def choose(self, logits: Var, bias: Weight | None) -> tuple[Var, Var]:
        """Each token's experts by logits (T, count), and their shares: (T, chosen) each."""
        experts = self.of
        if experts.scores == "sparsemixer":
            return self.choose_one_by_one(logits)
        scores = mb.softmax(x=logits, axis=-1) if experts.scores == "softmax" else mb.sigmoid(x=logits)
        choice = scores
        if bias:
            assert isinstance(bias.values, np.ndarray)  # never rounded
            choice = mb.add(x=scores, y=self.constant(bias.name, bias.values[None]))
        if experts.groups > 1:
            choice = self.in_groups(choice)
        chosen = largest(choice, experts.chosen)[1]
        shares = mb.gather_along_axis(x=scores, indices=chosen, axis=1)
        if experts.normalised:
            shares = mb.real_div(x=shares, y=mb.reduce_sum(x=shares, axes=[1], keep_dims=True))
        if experts.scale != 1:
            shares = mb.mul(x=shares, y=np.float16(experts.scale))
        return chosen, shares

    def choose_one_by_one(self, logits: Var) -> tuple[Var, Var]:
        """The same for sparsemixer."""
        (length, count), chosen = logits.shape, self.of.chosen
        values, places = largest(logits, chosen)
        most, others = mb.reshape(x=values, shape=[length, chosen, 1]), mb.reshape(x=logits, shape=[length, 1, count])
        below = mb.sub(x=most, y=others)  # (T, chosen, count)
        limit = mb.mul(x=mb.maximum(x=mb.abs(x=others), y=most), y=np.float16(self.of.nearness))
        powers = mb.exp(x=mb.mul(x=mb.relu(x=below), y=np.float16(-1)))
        near = mb.cast(x=mb.less_equal(x=below, y=limit), dtype="fp16")
        before = np.arange(chosen, dtype=np.float16)[None]  # each expert chosen before adds 1 to the sum
        total = mb.reduce_sum(x=mb.mul(x=powers, y=near), axes=[2])
        return places, mb.real_div(x=np.float16(1), y=mb.sub(x=total, y=before))

    def in_groups(self, choice: Var) -> Var:
        """The scores, with the lowest number in the groups that are not eligible."""
        (length, count), groups = choice.shape, self.of.groups
        grouped = mb.reshape(x=choice, shape=[length, groups, count // groups])
        sums = mb.reduce_sum(x=largest(grouped, 2)[0], axes=[2])  # (T, groups)
        border = mb.reduce_min(x=largest(sums, self.of.chosen_groups)[0], axes=[1], keep_dims=True)
        allowed = mb.reshape(x=mb.greater_equal(x=sums, y=border), shape=[length, groups, 1])
        return mb.reshape(x=mb.select(cond=allowed, a=grouped, b=-LARGEST), shape=[length, count])


def largest(x: Var, count: int) -> tuple[Var, Var]:
    """The largest `count` values of the last axis, and their indices."""
    values, places = mb.topk(x=x, k=count, axis=-1)
    return values, places


def biased(rows: Var, bias: Var | None) -> Var:
    """Rows plus their biases, if there are any."""
    return rows if bias is None else mb.add(x=rows, y=bias)


def nibbles(packed: Var) -> Var:
    """Unpack two nibbles from each byte: (N, out, in / 2) -> (N, out, in / 2, 2)."""
    high = mb.floor(x=mb.mul(x=packed, y=np.float16(1 / 16)))
    low = mb.sub(x=packed, y=mb.mul(x=high, y=np.float16(16)))
    return mb.stack(values=[low, high], axis=3)


def clamped_gate(gate: Var, up: Var, how: Clamped) -> Var:
    """The clamped gate of `Clamped`, for rows (N, F)."""
    gate = mb.clip(x=gate, alpha=-LARGEST, beta=np.float16(how.limit))
    up = mb.clip(x=up, alpha=np.float16(-how.limit), beta=np.float16(how.limit))
    opened = mb.mul(x=gate, y=mb.sigmoid(x=mb.mul(x=gate, y=np.float16(how.alpha))))
    return mb.mul(x=opened, y=mb.add(x=up, y=np.float16(1)))
