"""Matrices as constants that OpenVINO's plugins keep in their stored type, and dequantise while multiplying."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import openvino
from openvino import PartialShape, Type
from openvino import opset15 as op
from openvino._offline_transformations import compress_model_transformation

from backends.decoder import ExpertMatrices, Quantized
from backends.openvino.nodes import Node, integers
from backends.openvino.weights_file import WeightsFile
from backends.quantize import dequantize

EXPONENT = 127
"""How E8M0 stores a scale of 1."""


def matrix(values: np.ndarray | Quantized, file: WeightsFile) -> Node:
    """A constant (out, in), written to `file`."""
    if isinstance(values, np.ndarray) and values.dtype == np.float16:
        return float16(values)
    if not isinstance(values, Quantized) or values.bits == 16:  # the plugins know no integers of so many bits
        exact = np.asarray(dequantize(values) if isinstance(values, Quantized) else values, np.float32)
        return file.constant(exact, Type.f32, exact.shape)
    product = float4(values, file) if values.format == "mxfp4" else rounded(values, [values], (), file)
    rows, blocks = values.scales.shape
    return product if blocks == 1 else op.reshape(product, integers(rows, blocks * values.block), False)


def float16(values: np.ndarray) -> Node:
    """A float16 constant with a mark that only OpenVINO can set, without which plugins convert it."""
    x = op.parameter(PartialShape([-1, values.shape[1]]), Type.f32)
    product = op.matmul(x, op.constant(np.asarray(values, np.float32)), False, True)
    compress_model_transformation(openvino.Model([op.result(product)], [x], "compressed"))
    return product.input_value(1).get_node()


def shapes(values: Quantized) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of values and scales: with an axis for blocks where rows have several."""
    rows, blocks = values.scales.shape
    several = (blocks,) if blocks > 1 else ()
    return (rows, *several, values.block), (rows, *several, 1)


def stack(part: ExpertMatrices, file: WeightsFile) -> Node:
    """A constant (experts, out, in) of all experts' matrices, one in memory at a time."""
    first = part[0].values
    if not isinstance(first, Quantized) or first.bits == 16:
        matrices = (np.asarray(dequantize(weight.values), np.float32) for weight in part)
        rows, columns = (first.values if isinstance(first, Quantized) else first).shape
        return file.stack(matrices, Type.f32, (part.count, rows, columns))
    each = (weight.values for weight in part if isinstance(weight.values, Quantized))  # as the first one is
    product, (rows, blocks) = rounded(first, each, (part.count,), file), first.scales.shape
    return product if blocks == 1 else op.reshape(product, integers(part.count, rows, blocks * first.block), False)


def rounded(first: Quantized, matrices: Iterable[Quantized], count: tuple[int, ...], file: WeightsFile) -> Node:
    """Dequantize `matrices`, which are like the `first`; `count` is (their number,), or () for a single one."""
    shape, each = shapes(first)
    zeroed, nibbles = first.zero_points is not None, first.bits == 4
    rest: list[Quantized] = []

    def numbers() -> Iterator[np.ndarray]:
        for values in matrices:
            rest.append(replace(values, values=values.values[:0]))
            if not nibbles:
                yield unsigned(values.values)
            else:  # without zero points from offset 8 to two's complement
                yield values.values if zeroed else values.values ^ np.uint8(0x88)

    def kept(arrays: Iterator[np.ndarray], kind: Type, shape: tuple[int, ...]) -> Node:
        return file.stack(arrays, kind, (*count, *shape)) if count else file.constant(next(arrays), kind, shape)

    kind = Type.u8 if not nibbles else Type.u4 if zeroed else Type.i4
    product = op.convert(kept(numbers(), kind, shape), "f32")
    if zeroed:
        zeros = (paired(one.zero_points) if nibbles else unsigned(one.zero_points) for one in rest)
        product = op.subtract(product, op.convert(kept(zeros, kind, each), "f32"))
    elif not nibbles:
        product = op.subtract(product, op.convert(op.constant(np.full(1, 128, np.uint8)), "f32"))
    scales = (np.asarray(one.scales, np.float32) for one in rest)
    return op.multiply(product, kept(scales, Type.f32, each))


def unsigned(values: np.ndarray | None) -> np.ndarray:
    """int8 shifted by 128, which is multiplied faster than signed bytes."""
    assert values is not None
    return values.view(np.uint8) ^ np.uint8(0x80)


def paired(zero_points: np.ndarray | None) -> np.ndarray:
    """Nibbles in pairs, the low one first."""
    assert zero_points is not None
    pairs = np.pad(zero_points.ravel(), (0, zero_points.size % 2))
    return np.asarray(pairs[::2] | pairs[1::2] << 4)


def float4(values: Quantized, file: WeightsFile) -> Node:
    """The same for mxfp4, which the plugins know: 4-bit elements with powers of two as scales.

    The values are twice the elements.
    """
    elements = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.searchsorted(elements, np.abs(values.values) / 2).astype(np.uint8) | (values.values < 0) * np.uint8(8)
    shape, each = shapes(values)
    numbers = file.constant(codes.ravel()[::2] | codes.ravel()[1::2] << 4, Type.f4e2m1, shape)
    exponents = np.clip(np.rint(np.log2(values.scales * 2)) + EXPONENT, 0, 254).astype(np.uint8)
    scales = file.constant(exponents, Type.f8e8m0, each)
    return op.multiply(op.convert(numbers, "f32"), op.convert(scales, "f32"))
