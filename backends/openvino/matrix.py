"""Matrices as constants that OpenVINO's plugins keep as they are stored, and multiply out while they multiply."""

from dataclasses import replace
from typing import Any

import numpy as np
import openvino
from openvino import PartialShape, Shape, Tensor, Type
from openvino import opset15 as op
from openvino._offline_transformations import compress_model_transformation
from openvino.op import Constant

from backends.decoder import Quantized
from backends.quantize import dequantize

Node = Any
"""A node: the types of `openvino` say little."""
EXPONENT = 127
"""What an E8M0 scale of 1 is stored as."""


def matrix(values: np.ndarray | Quantized) -> Node:
    """A constant (out, in)."""
    if not isinstance(values, Quantized):
        return float16(values) if values.dtype == np.float16 else op.constant(np.asarray(values, np.float32))
    if values.bits == 16:  # the plugins know no integers of so many bits
        return op.constant(dequantize(values))
    product = op.multiply(*(float4 if values.format == "mxfp4" else integers)(values))
    rows, blocks = values.scales.shape
    return product if blocks == 1 else op.reshape(product, op.constant(np.array([rows, blocks * values.block])), False)


def float16(values: np.ndarray) -> Node:
    """A constant with a mark that only OpenVINO itself can set, and without which the plugins would convert it."""
    x = op.parameter(PartialShape([-1, values.shape[1]]), Type.f32)
    product = op.matmul(x, op.constant(np.asarray(values, np.float32)), False, True)
    compress_model_transformation(openvino.Model([op.result(product)], [x], "compressed"))
    return product.input_value(1).get_node()


def shapes(values: Quantized) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the numbers and of their scales: with an axis for the blocks where rows have several."""
    rows, blocks = values.scales.shape
    several = (blocks,) if blocks > 1 else ()
    return (rows, *several, values.block), (rows, *several, 1)


def rows(values: np.ndarray | Quantized, part: slice) -> np.ndarray | Quantized:
    """Some rows of a matrix."""
    if not isinstance(values, Quantized):
        return values[part]
    zero_points = None if values.zero_points is None else values.zero_points[part]
    return replace(values, values=values.values[part], scales=values.scales[part], zero_points=zero_points)


def integers(values: Quantized) -> tuple[Node, Node]:
    """Numbers and their scales."""
    shape, each = shapes(values)
    scales = op.constant(np.asarray(values.scales, np.float32).reshape(each))
    zero_points = values.zero_points
    if values.bits == 8:
        # Unsigned bytes are multiplied faster than signed ones: what was 0 is 128.
        zeros = np.full(1, 0, np.int8) if zero_points is None else zero_points.reshape(each)
        numbers, zeros = (x.view(np.uint8) ^ 0x80 for x in (values.values.reshape(shape), zeros))
        return op.subtract(op.convert(op.constant(numbers), "f32"), op.convert(op.constant(zeros), "f32")), scales
    if zero_points is None:
        return op.convert(nibbles(Type.i4, values.values ^ 0x88, shape), "f32"), scales  # offset 8 to two's complement
    pairs = np.pad(zero_points.ravel(), (0, zero_points.size % 2))
    zeros = nibbles(Type.u4, pairs[::2] | pairs[1::2] << 4, each)
    return op.subtract(op.convert(nibbles(Type.u4, values.values, shape), "f32"), op.convert(zeros, "f32")), scales


def float4(values: Quantized) -> tuple[Node, Node]:
    """The same for a microscaling format that the plugins know: elements of 4 bits, scales that are powers of two.

    The values are twice the elements.
    """
    elements = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.searchsorted(elements, np.abs(values.values) / 2).astype(np.uint8) | (values.values < 0) * np.uint8(8)
    shape, each = shapes(values)
    numbers = nibbles(Type.f4e2m1, codes.ravel()[::2] | codes.ravel()[1::2] << 4, shape)
    exponents = np.clip(np.rint(np.log2(values.scales * 2)) + EXPONENT, 0, 254).astype(np.uint8)
    scales = filled(Type.f8e8m0, exponents, each)
    return op.convert(numbers, "f32"), op.convert(scales, "f32")


def nibbles(kind: Type, pairs: np.ndarray, shape: tuple[int, ...]) -> Node:
    """A constant of elements of 4 bits, two of them in each of `pairs`, the low one first."""
    return filled(kind, pairs, shape)


def filled(kind: Type, data: np.ndarray, shape: tuple[int, ...]) -> Node:
    """A constant of a type that NumPy does not have."""
    tensor = Tensor(kind, Shape(shape))
    tensor.data[:] = data.reshape(tensor.data.shape)
    return Constant(tensor)
