"""What is stored: weights and constants in float16, or integers with float16 scales, and the tables of the host."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.coreml.inputs import EMBEDDINGS
from backends.decoder import Attention, Decoder, Lazy, Quantized, Weight, Weights
from backends.quantize import dequantize, half

Table = np.ndarray | Quantized
"""Embeddings or biases, in a file that is mapped into memory: the host looks up single rows."""
ARRAYS = "values", "scales", "zero_points"


class Stored(Lazy):
    """The same weights as they will be stored, each read once and kept for all functions."""

    def __init__(self, weights: Weights):
        self.table = self.weights = weights
        self.kept: dict[str, Weight] = {}

    def __getitem__(self, name: str) -> Weight:
        if name not in self.kept:
            weight = self.weights[name]
            bias = None if weight.bias is None else half(weight.bias, weight.name)
            self.kept[name] = Weight(weight.name, stored(weight, name), bias)
        return self.kept[name]


def stored(weight: Weight, name: str) -> np.ndarray | Quantized:
    """The values of the weight that stands under `name`."""
    values = weight.values
    if not isinstance(values, Quantized):
        return half(values, weight.name)
    if values.bits > 8:
        return half(dequantize(values), weight.name)
    if name in EMBEDDINGS:  # the host multiplies by the scales as they are
        return values
    return replace(values, scales=half(values.scales, weight.name))


def rounded_constants(decoder: Decoder, context_length: int) -> Decoder:
    """The same decoder for a shorter context, with the numbers that become constants of the graph in float16."""

    def near(number: float) -> float:
        return float(np.float16(number))

    def near_layer(a: Attention) -> Attention:
        return replace(a, scale=near(a.scale), softcap=near(a.softcap), alibi=tuple(near(slope) for slope in a.alibi))

    return replace(
        decoder,
        layers=tuple(near_layer(a) for a in decoder.layers),
        encoder=tuple(near_layer(a) for a in decoder.encoder),
        output_scale=near(decoder.output_scale),
        context_length=context_length,
        epsilon=near(decoder.epsilon),
        logit_softcap=near(decoder.logit_softcap),
    )


def write_tables(folder: Path, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Write the tables' arrays to `folder`, and return what else there is to know of them."""
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
    """The tables that `write_tables` wrote."""
    found: dict[str, Table] = {}
    for name, fields in facts.items():
        paths = {kind: folder / f"{name}.{kind}.npy" for kind in ARRAYS}
        arrays = {kind: np.load(path, mmap_mode="r") for kind, path in paths.items() if path.exists()}
        found[name] = Quantized(**arrays, **fields) if fields else arrays["values"]
    return found
