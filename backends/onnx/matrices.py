"""Multiply by matrices, and look up their rows, with ONNX Runtime's operations for each precision."""

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from backends.decoder import Quantized, Weight
from backends.onnx.graph import FUSED, Graph
from backends.quantize import block_for, nibbles

BLOCK = 128
"""The block that a scale for the whole row is repeated for; the kernels take 16 to 256."""
WIDEST = 256
"""The same for int8: the fastest of the blocks that the kernels take."""


def linear(graph: Graph, x: str, weight: Weight, *, blocks: bool = False) -> str:
    """Append `x @ matrix.T + bias`; with `blocks`, int8 is multiplied block by block."""
    name, values = weight.name, weight.values
    bias = "" if weight.bias is None else graph.constant(name + ".bias", weight.bias)
    if not isinstance(values, Quantized):
        product = graph.node("MatMul", x, graph.constant(name + ".transposed", np.asarray(values, np.float32).T))
        return graph.node("Add", product, bias) if bias else product
    if values.bits == 16:
        high, low = halves(name, values)
        return graph.node("Add", linear(graph, x, replace(high, bias=weight.bias)), linear(graph, x, low))
    if has_row_scales(values) and not (blocks and block_of(values)):
        product = product_by_token(graph, x, name, values)
        return graph.node("Add", product, bias) if bias else product
    matrix, *rest = packed(graph, name, values)
    rows, count, block = in_blocks(values)
    how = dict(N=rows, K=count * block, bits=values.bits, block_size=block, accuracy_level=4)
    return graph.node("MatMulNBits", x, matrix, *rest, "", bias, domain=FUSED, **how)


def embed(graph: Graph, table: Weight, index: str, *, blocks: bool = False) -> str:
    """Append a lookup of the rows `index`, sharing the stored matrix with `linear`."""
    name, values = table.name, table.values
    if not isinstance(values, Quantized):
        return graph.node("Gather", graph.constant(name, np.asarray(values, np.float32)), index)
    if values.bits == 16:
        high, low = halves(name, values)
        return graph.node("Add", embed(graph, high, index), embed(graph, low, index))
    if has_row_scales(values) and not (blocks and block_of(values)):
        return embed_columns(graph, name, values, index)
    matrix, *rest = packed(graph, name, values)
    rows = graph.view(matrix, name + ".rows", values.values.shape)
    how = dict(gather_axis=0, quantize_axis=1, block_size=in_blocks(values)[2], bits=values.bits)
    return graph.node("GatherBlockQuantized", rows, index, *rest, domain=FUSED, **how)


def embed_columns(graph: Graph, name: str, values: Quantized, index: str) -> str:
    """Append a lookup of columns of the transposed table, turned back into rows."""
    scales, zeros = per_row(graph, name, values)

    def chosen(constant: str) -> str:
        number = graph.node("Cast", graph.node("Gather", constant, index), to=TensorProto.FLOAT)
        return graph.node("Unsqueeze", number, graph.numbers(-1))

    columns = graph.node("Gather", transposed(graph, name, values), index, axis=1)
    rows = graph.node("Cast", graph.node("Transpose", columns, perm=[1, 2, 0]), to=TensorProto.FLOAT)
    rows = graph.node("Sub", rows, chosen(zeros)) if zeros else rows
    return graph.node("Mul", rows, chosen(scales))


def has_row_scales(values: Quantized) -> bool:
    """Whether values are int8 with one scale per row, so that a kernel without blocks can multiply them."""
    return values.bits == 8 and values.block == values.values.shape[1]


def product_by_token(graph: Graph, x: str, name: str, values: Quantized) -> str:
    """Append a product whose activations are rounded to int8, symmetrically, with a scale for each token.

    With a range for all tokens of a call, a token's result would depend on its neighbours, and outliers in one token
    would leave the others few bits.
    """
    largest = graph.node("ReduceMax", graph.node("Abs", x), graph.numbers(-1), keepdims=1)
    extreme = graph.node("Max", largest, graph.scalar(1e-20))  # (B, T, 1)
    step, middle = graph.scalar(1 / 127), graph.constant("middle", np.array(128, np.uint8))
    even = graph.node("QuantizeLinear", graph.node("Div", x, extreme), step, middle)
    matrix, (scales, zeros) = transposed(graph, name, values), per_row(graph, name, values)
    product = graph.node("MatMulIntegerToFloat", even, matrix, step, scales, middle, zeros, domain=FUSED)
    return graph.node("Mul", product, extreme)


def transposed(graph: Graph, name: str, values: Quantized) -> str:
    """Add the matrix (in, out)."""
    return graph.constant(name + ".transposed", values.values.T)


def per_row(graph: Graph, name: str, values: Quantized) -> tuple[str, str]:
    """Add scales and zero points (out,)."""
    zeros = values.zero_points
    scales = graph.constant(name + ".scales", values.scales[:, 0])
    return scales, "" if zeros is None else graph.constant(name + ".zeros", zeros[:, 0])


def packed(graph: Graph, name: str, values: Quantized) -> tuple[str, str, str]:
    """Add the matrix (out, blocks, bytes), scales and zero points (out, blocks), as unsigned integers."""
    rows, blocks, block = in_blocks(values)
    matrix, scales, zeros = unsigned_parts(values, block)
    matrix_name = graph.constant(name, matrix.reshape(rows, blocks, -1))
    scales_name = graph.constant(name + ".scales", scales)
    return matrix_name, scales_name, "" if zeros is None else graph.constant(name + ".zeros", zeros)


def unsigned_parts(values: Quantized, block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """A matrix (out, bytes), scales and zero points per `block`, unsigned; without zero points zero is 8 or 128."""
    repeats = values.block // block
    scales, zeros = values.scales.repeat(repeats, axis=1), values.zero_points
    if zeros is not None:
        zeros = unsigned(zeros, values.bits).repeat(repeats, axis=1)
        if values.bits == 4:
            even = np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2)))
            zeros = even[:, ::2] | even[:, 1::2] << 4
    return unsigned(values.values, values.bits), scales, zeros


def block_of(values: Quantized) -> int:
    """The block size to store: as the kernels take it; 0 if none fits."""
    widest = WIDEST if values.bits == 8 else BLOCK
    return values.block if values.scales.shape[1] > 1 else block_for(values.block, widest)


def in_blocks(values: Quantized) -> tuple[int, int, int]:
    """Rows, blocks per row, and block size, as stored."""
    rows, blocks = values.scales.shape
    block = block_of(values)
    return rows, blocks * values.block // block, block


def unsigned(values: np.ndarray, bits: int) -> np.ndarray:
    """Integers as the kernels take them: int8 shifted by 128, nibbles as they are."""
    return values if bits == 4 else values.view(np.uint8) ^ np.uint8(128)


def halves(name: str, values: Quantized) -> tuple[Weight, Weight]:
    """Split int16 values of up to 2039 units exactly into an int8 matrix of sixteens plus a matrix of nibbles."""
    high = values.values + np.int16(8) >> 4
    low = nibbles(values.values - (high << 4))
    return (
        Weight(name + ".high", Quantized(high.astype(np.int8), values.scales * 16, 8, values.block)),
        Weight(name + ".low", Quantized(low, values.scales, 4, values.block)),
    )
