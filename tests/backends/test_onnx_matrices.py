"""ONNX Runtime multiplies by rounded matrices, and looks rows up in them, without changing a weight."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from backends.decoder import Weight
from backends.onnx import matrices
from backends.onnx.graph import Graph
from backends.onnx.session import open_runtime
from backends.quantize import PRECISIONS, dequantize, rounded
from support.arrays import near

ROUNDED = [name for name in PRECISIONS if PRECISIONS[name].round]
RANDOM = np.random.default_rng(5)
BIAS = RANDOM.standard_normal(96).astype(np.float32)


def matrix(precision: str, size: int) -> Weight:
    """A rounded matrix (96, size)."""
    values = RANDOM.standard_t(5, (96, size)).astype(np.float32)
    return Weight("weight", rounded(values, PRECISIONS[precision]), BIAS)


def run(
    folder: Path, weight: Weight, x: np.ndarray, index: np.ndarray, blocks: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What `linear` makes of `x` and `embed` of `index`, with one copy of the matrix in the file."""
    with Graph(folder) as graph:
        graph.node_with("Identity", [matrices.linear(graph, "x", weight, blocks=blocks)], ["product"])
        graph.node_with("Identity", [matrices.embed(graph, weight, "index", blocks=blocks)], ["rows"])
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "T", x.shape[2]])]
        inputs += [helper.make_tensor_value_info("index", TensorProto.INT64, ["A", "L"])]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("product", "rows")]
        graph.save("model", inputs, outputs)
    session = open_runtime(folder / "model.onnx", {})  # as the backend does: where products of bytes overflow, too
    product, rows = session.run(None, {"x": x, "index": index})
    return np.asarray(product), np.asarray(rows)


def kept(rows: int, size: int) -> np.ndarray:
    """Activations (2, rows, size) that the kernels keep as they are: whole numbers that use the whole range."""
    x = RANDOM.integers(-127, 128, (2, rows, size)).astype(np.float32)
    x[..., ::16] = 127  # the extreme of every block
    return x * np.exp2(RANDOM.integers(-4, 5, (2, rows, 1))).astype(np.float32)


@pytest.mark.parametrize("size", [96, 768])
@pytest.mark.parametrize(("precision", "blocks"), [*((name, False) for name in ROUNDED), ("int8", True)])
def test_weights_are_exactly_those_of_the_precision(tmp_path: Path, precision: str, size: int, blocks: bool) -> None:
    weight, x, index = matrix(precision, size), kept(5, size), np.array([[3, 95], [0, 7]])
    product, rows = run(tmp_path, weight, x, index, blocks)
    exact = dequantize(weight.values).astype(np.float64)
    assert rows == pytest.approx(exact[index], rel=1e-6, abs=1e-7)
    expected = x @ exact.T + BIAS
    assert np.abs(product - expected).max() < 2e-6 * np.abs(x).max() * np.abs(exact).sum(1).max()
    first, _ = run(tmp_path, weight, x[:1, :1], index[:, :1], blocks)  # one token has kernels of its own
    assert np.abs(first - expected[:1, :1]).max() < 2e-6 * np.abs(x).max() * np.abs(exact).sum(1).max()


def beside_outliers(folder: Path, precision: str) -> tuple[np.ndarray, np.ndarray]:
    """Three tokens times a matrix: alone, and beside a token that is a thousand times as large."""
    weight, index = matrix(precision, 512), np.array([[0]])
    x = RANDOM.standard_normal((1, 4, 512)).astype(np.float32)
    alone, _ = run(folder, weight, x, index)
    x[0, 0] *= 1000
    beside, _ = run(folder, weight, x, index)
    return alone[0, 1:], beside[0, 1:]


@pytest.mark.parametrize("precision", ["int8", "int8-asym", "int8-128", "int4", "int4-asym", "mx9", "mxfp4"])
def test_a_token_of_outliers_changes_no_other(tmp_path: Path, precision: str) -> None:
    alone, beside = beside_outliers(tmp_path, precision)
    assert np.array_equal(beside, alone)


@pytest.mark.parametrize(("precision", "blocks"), [*((name, False) for name in ROUNDED), ("int8", True)])
def test_a_token_is_rounded_alike_alone_and_beside_others(tmp_path: Path, precision: str, blocks: bool) -> None:
    weight, index = matrix(precision, 512), np.array([[0]])
    x = RANDOM.standard_normal((1, 4, 512)).astype(np.float32)
    together, _ = run(tmp_path, weight, x, index, blocks)
    for place in range(4):
        alone, _ = run(tmp_path, weight, x[:, place : place + 1], index, blocks)
        assert np.abs(alone[0, 0] - together[0, place]).max() < 5e-6 * together.std()


@pytest.mark.parametrize(("precision", "tolerance"), [("int8", 0.02), ("int8-128", 0.016), ("int8-32", 0.012)])
def test_activations_are_rounded_to_eight_bits(tmp_path: Path, precision: str, tolerance: float) -> None:
    weight, x = matrix(precision, 768), RANDOM.standard_normal((1, 16, 768)).astype(np.float32)
    product, _ = run(tmp_path, weight, x, np.array([[0]]))
    expected = x @ dequantize(weight.values).T + BIAS
    assert np.abs(product - expected).mean() < tolerance * expected.std()


@pytest.mark.parametrize("precision", ["int8", "int8-32", "int4-channel"])
def test_tokens_of_zeros_give_the_bias(tmp_path: Path, precision: str) -> None:
    product, _ = run(tmp_path, matrix(precision, 256), np.zeros((1, 2, 256), np.float32), np.array([[0]]))
    assert product == near(np.broadcast_to(BIAS, (1, 2, 96)), abs=1e-6)
