"""Keep matrices that are rounded in the file as their integers."""

from dataclasses import replace

import numpy as np

from backends.decoder import Lazy, Quantized, Weight
from backends.quantize import EXACT
from model_store.checkpoint.tensor import Tensor
from model_store.checkpoint.weights import Canonical, transforms_of, transpose
from model_store.errors import UnsupportedCheckpoint


class Kept(Lazy):
    """Weights whose rounded matrices stay the integers that they are in the file."""

    def __init__(self, weights: Canonical):
        self.table = self.weights = weights

    def parts(self, name: str) -> list[Tensor]:
        """The tensors of a weight and its bias."""
        return self.weights.parts(name)

    def __getitem__(self, name: str) -> Weight:
        canonical = self.weights
        if name == "lm_head" and canonical.head_is_embedding:
            name = "embedding"  # one table, stored once
        source, layer = canonical.table[name]
        names = [copies[0] for copies in canonical.find(source, layer, ".weight")]
        found = [] if name.endswith(EXACT) else [canonical.tensors[one].quantized() for one in names]
        matrices = [one for one in found if one]
        bias = canonical.read(source, layer, ".bias")
        rows = sum(len(one.scales) for one in matrices)
        columns = {one.scales.shape[1] * one.block for one in matrices}
        fits = canonical.shape(name) in ((), (rows, *columns)) and (bias is None or bias.shape == (rows,))
        if not matrices or len(matrices) < len(names) or not fits:
            return canonical[name]
        values = joined(matrices)
        if not np.isfinite(values.scales).all():
            raise UnsupportedCheckpoint(f"{' or '.join(names)} holds NaN or infinite values; download the file again")
        for transform in transforms_of(source):  # they reorder rows, or heads within rows, except one
            if transform is transpose:
                continue
            try:
                numbers, scales, zeros = (
                    None if part is None else transform(part, canonical.layers[layer])
                    for part in (values.values, values.scales, values.zero_points)
                )
            except ValueError:  # a block spans two heads
                return canonical[name]
            assert numbers is not None and scales is not None
            values = replace(values, values=numbers, scales=scales, zero_points=zeros)
        return Weight(name, values, bias)


def joined(parts: list[Quantized]) -> Quantized:
    """Stack matrices by rows: as nibbles if all are, else as int8, with the smallest block of any."""
    if len(parts) == 1:
        return parts[0]
    block = min(part.block for part in parts)
    bits = max(part.bits for part in parts)
    values = [part.values if part.bits == bits else wider(part.values) for part in parts]
    scales = [part.scales.repeat(part.block // block, axis=1) for part in parts]
    zeros = None
    if any(part.zero_points is not None for part in parts):
        zeros = np.concatenate([zeros_of(part, bits).repeat(part.block // block, axis=1) for part in parts])
    return Quantized(np.concatenate(values), np.concatenate(scales), bits, block, zeros)


def zeros_of(part: Quantized, bits: int) -> np.ndarray:
    """A matrix's zero points for values of `bits` bits."""
    usual, dtype = (8, np.uint8) if part.bits == 4 else (0, np.int8)
    zeros = part.zero_points if part.zero_points is not None else np.full(part.scales.shape, usual, dtype)
    return zeros if part.bits == bits else zeros.view(np.int8) - np.int8(8)


def wider(values: np.ndarray) -> np.ndarray:
    """Nibbles (out, in / 2) with zero point 8 as int8 (out, in)."""
    pairs = np.stack([values & 15, values >> 4], axis=-1).view(np.int8) - np.int8(8)
    return pairs.reshape(len(values), -1)
