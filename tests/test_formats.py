"""The tables of docs/formats.md are true: noise, bits a weight, and what ONNX Runtime holds."""

from pathlib import Path

import numpy as np
import pytest

from backends import onnx
from backends.decoder import Weight
from backends.onnx import matrices
from backends.onnx.graph import Graph
from backends.quantize import PRECISIONS, dequantize, rounded

DOCUMENT = Path(__file__).parent.parent / "docs" / "formats.md"
SIZE = 1024


def table() -> dict[str, list[str]]:
    """The cells of the table's rows by precision."""
    rows = [line.strip("| ").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


def matrix(kind: str) -> np.ndarray:
    """A matrix (1024, 1024) whose values are distributed so."""
    random = np.random.default_rng(1)
    draw = {
        "gauss": lambda: random.standard_normal((SIZE, SIZE)),
        "laplace": lambda: random.laplace(size=(SIZE, SIZE)),
        "student": lambda: random.standard_t(5, (SIZE, SIZE)),
    }
    return draw[kind]().astype(np.float32)


def decibels(values: np.ndarray, precision: str) -> float:
    """Signal to noise of `values` at `precision`."""
    noise = dequantize(rounded(values, PRECISIONS[precision])).astype(np.float64) - values
    return float(10 * np.log10(np.square(values, dtype=np.float64).sum() / np.square(noise).sum()))


def format_bits(precision: str) -> float:
    """Bits a weight of 1,024 in a row: a microscaling format's own, or an integer's with its scale and zero point."""
    known = PRECISIONS[precision]
    shared = 32 + (known.bits if "asym" in precision else 0)
    return known.format_bits or known.bits + shared / (known.block or SIZE)


def test_every_precision_is_in_the_table() -> None:
    assert list(table()) == [name for name in PRECISIONS if name != "f32"]


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if name != "f32"])
def test_a_row_is_true(tmp_path: Path, precision: str) -> None:
    noise = [decibels(matrix(kind), precision) for kind in ("gauss", "laplace", "student")]
    with Graph(tmp_path) as graph:
        matrices.linear(graph, "x", Weight("weight", rounded(matrix("gauss"), PRECISIONS[precision])))
    held = (tmp_path / "model.data").stat().st_size * 8 / SIZE**2
    carrier = onnx.carrier(precision) or "itself"
    found = [f"{format_bits(precision):.2f}", *(f"{level:.1f}" for level in noise), carrier, f"{held:.2f}"]
    row = table()[precision]
    assert row[-2:-1] == found[-2:-1], f"the row should be {' | '.join(found)}"
    numbers, stated = ([float(cell) for cell in (*cells[:4], cells[5])] for cells in (found, row))
    assert stated == pytest.approx(numbers, abs=0.11), f"the row should be {' | '.join(found)}"
