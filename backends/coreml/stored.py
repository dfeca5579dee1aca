"""What is stored: float16 weights and constants, integers with float16 scales, and the host's tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.coreml.inputs import EMBEDDINGS
from backends.decoder import Decoder, ExpertMatrices, Experts, Layer, Lazy, Quantized, Weight, Weights
from backends.quantize import dequantize, half

Table = np.ndarray | Quantized
"""Embeddings or biases, memory-mapped: the host looks up single rows."""
ARRAYS = "values", "scales", "zero_points"


@dataclass(frozen=True)
class Stack:
    """One matrix of all experts, as stored; rounded ones have scales."""

    data: np.ndarray  # (count, out, in), or two nibbles to a byte, the low one first: (count, out, in / 2)
    scale: np.ndarray | None = None  # (count, out, in / block)
    offset: np.ndarray | None = None
    """Subtracted before scaling; shaped like `scale`, or a scalar."""
    bias: np.ndarray | None = None  # (count, out)


class Stored(Lazy):
    """Weights as they will be stored, each read once and kept for all functions."""

    def __init__(self, weights: Weights):
        self.table = self.weights = weights
        self.kept: dict[str, Weight] = {}
        self.stacks: dict[str, Stack] = {}

    def __getitem__(self, name: str) -> Weight:
        if name in self.kept:
            return self.kept[name]
        weight = self.weights[name]
        bias = None if weight.bias is None else half(weight.bias, weight.name)
        found = Weight(weight.name, stored(weight, name), bias)
        if ".experts." not in name:  # experts are kept as stacks
            self.kept[name] = found
        return found

    def stacked(self, part: ExpertMatrices) -> Stack:
        """One matrix of all experts."""
        if part.name not in self.stacks:
            self.stacks[part.name] = stack(part)
        return self.stacks[part.name]


def stored(weight: Weight, name: str) -> np.ndarray | Quantized:
    """The stored values of the weight called `name`."""
    values = weight.values
    if not isinstance(values, Quantized):
        return half(values, weight.name)
    if values.bits > 8:
        return half(dequantize(values), weight.name)
    if name in EMBEDDINGS:  # the host uses the scales as they are
        return values
    return replace(values, scales=half(values.scales, weight.name))


def stack(part: ExpertMatrices) -> Stack:
    """Read one matrix of all experts."""
    first = part[0]
    if not isinstance(first.values, Quantized):
        return Stack(together(part, lambda weight: weight.values), bias=biases(part))
    offset = np.array(8, np.float16) if first.values.bits == 4 else None
    if first.values.zero_points is not None:
        offset = together(part, lambda weight: rounded(weight).zero_points)
    data = together(part, lambda weight: rounded(weight).values)
    return Stack(data, together(part, lambda weight: rounded(weight).scales), offset, biases(part))


def rounded(weight: Weight) -> Quantized:
    """A rounded matrix's values."""
    assert isinstance(weight.values, Quantized)  # like the first expert's
    return weight.values


def biases(part: ExpertMatrices) -> np.ndarray | None:
    """The biases of all experts, if there are any."""
    return None if part[0].bias is None else together(part, lambda weight: weight.bias)


def together(part: ExpertMatrices, array: Callable[[Weight], object]) -> np.ndarray:
    """Stack one array of each expert."""
    found: np.ndarray | None = None
    for expert, weight in enumerate(part):
        one = np.asarray(array(weight))
        found = np.empty((part.count, *one.shape), one.dtype) if found is None else found
        found[expert] = one
    assert found is not None  # there are experts
    return found


def rounded_constants(decoder: Decoder, context_length: int) -> Decoder:
    """The decoder for a shorter context, with numbers that become constants rounded to float16."""

    def near(number: float) -> float:
        return float(np.float16(number))

    def near_layer(layer: Layer) -> Layer:
        slopes = tuple(near(slope) for slope in layer.alibi)
        return replace(layer, scale=near(layer.scale), softcap=near(layer.softcap), alibi=slopes)

    def near_experts(experts: Experts) -> Experts:
        clamped = experts.clamped and replace(
            experts.clamped, alpha=near(experts.clamped.alpha), limit=near(experts.clamped.limit)
        )
        return replace(experts, nearness=near(experts.nearness), scale=near(experts.scale), clamped=clamped)

    return replace(
        decoder,
        layers=tuple(near_layer(layer) for layer in decoder.layers),
        encoder=tuple(near_layer(layer) for layer in decoder.encoder),
        output_scale=near(decoder.output_scale),
        context_length=context_length,
        epsilon=near(decoder.epsilon),
        logit_softcap=near(decoder.logit_softcap),
        experts=decoder.experts and near_experts(decoder.experts),
    )


def write_tables(folder: Path, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Write the tables' arrays to `folder`; returns the rest of their description."""
    facts: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, Quantized):
            arrays = {kind: getattr(table, kind) for kind in ARRAYS}
            facts[name] = {key: value for key, value in vars(table).items() if key not in ARRAYS}
        else:
            arrays, facts[name] = {"values": table}, {}
        for kind, array in arrays.items():
            if array is not None:
                np.save(folder / f"{name}.{kind}.npy", array)
    return facts


def read_tables(folder: Path, facts: Mapping[str, Any]) -> dict[str, Table]:
    """Read the tables that `write_tables` wrote."""
    found: dict[str, Table] = {}
    for name, fields in facts.items():
        paths = {kind: folder / f"{name}.{kind}.npy" for kind in ARRAYS}
        arrays = {kind: np.load(path, mmap_mode="r") for kind, path in paths.items() if path.exists()}
        found[name] = Quantized(**arrays, **fields) if fields else arrays["values"]
    return found
