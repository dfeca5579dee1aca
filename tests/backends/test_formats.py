"""The table of docs/formats.md is true: noise, divergence, bits a weight, and what ONNX Runtime holds."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers

import model_store.store
from backends import onnx
from backends.decoder import Weight
from backends.onnx import matrices
from backends.onnx.graph import Graph
from backends.processor import has_fast_int8
from backends.quantize import PRECISIONS, dequantize, rounded
from model_store.convert import convert
from support.arrays import near

ROOT = Path(__file__).parents[2]
ROUNDED = [name for name in PRECISIONS if PRECISIONS[name].round]
SIZE = 1024
FORMAT_BITS = {"mxint8": 8.25, "mxfp6-e2m3": 6.25, "mxfp6-e3m2": 6.25, "mxfp4": 4.25, "mx9": 9, "mx6": 6, "mx4": 4}
"""Bits a weight, its share of the scale included, in the layouts of the microscaling formats."""
KINDS = ("gaussian", "laplace", "student")


def table() -> dict[str, list[str]]:
    """The cells of the table's rows by precision."""
    lines = (ROOT / "docs" / "formats.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {row[0]: row[1:] for row in rows if len(row) == 8}


@cache
def matrix(kind: str) -> np.ndarray:
    """A matrix (1024, 1024) whose values are distributed so."""
    random = np.random.default_rng(1)
    draw = {
        "gaussian": lambda: random.standard_normal((SIZE, SIZE)),
        "laplace": lambda: random.laplace(size=(SIZE, SIZE)),
        "student": lambda: random.standard_t(5, (SIZE, SIZE)),
    }
    return draw[kind]().astype(np.float32)


def decibels(values: np.ndarray, precision: str) -> float:
    """Signal to noise of `values` at `precision`."""
    noise = dequantize(rounded(values, PRECISIONS[precision])).astype(np.float64) - values
    return float(10 * np.log10(np.square(values, dtype=np.float64).sum() / np.square(noise).sum()))


def format_bits(precision: str) -> float:
    """Bits a weight in rows of 1,024: a microscaling format's own, or an integer's with its scale and zero point."""
    known = PRECISIONS[precision]
    shared = 32 + (known.bits if "asym" in precision else 0)
    return FORMAT_BITS.get(precision) or known.bits + shared / (known.block or SIZE)


def held_bits(precision: str, folder: Path) -> float:
    """Bits a weight of such a matrix in ONNX Runtime's file."""
    with Graph(folder) as graph:
        matrices.linear(graph, "x", Weight("weight", rounded(matrix("gaussian"), PRECISIONS[precision])))
    return (folder / "model.data").stat().st_size * 8 / SIZE**2


@cache
def read_licence() -> np.ndarray:
    """The licence's first 256 tokens as the built-in model reads them, (1, 256)."""
    tokenizer = tokenizers.Tokenizer.from_file(str(model_store.store.BUILTIN_FOLDER / "tokenizer.json"))
    return np.array([tokenizer.encode((ROOT / "LICENSE").read_text()).ids[:256]])


def log_probabilities(precision: str, folder: Path) -> np.ndarray:
    """What the built-in model expects after each of these tokens, (256, vocab)."""
    convert(model_store.store.BUILTIN_FOLDER, folder, backend="onnx", precision=precision)
    logits = onnx.load(folder).forward(read_licence(), last=256)[0].astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The same in float32."""
    return log_probabilities("f32", tmp_path_factory.mktemp("f32"))


def test_every_precision_is_in_the_table_in_order() -> None:
    assert list(table()) == ROUNDED


@pytest.mark.parametrize("precision", ROUNDED)
def test_a_row_is_true(tmp_path: Path, precision: str) -> None:
    bits, *noise, _, carrier, held = table()[precision]
    assert float(bits) == near(format_bits(precision), abs=0.01)
    assert [float(cell) for cell in noise] == near([decibels(matrix(kind), precision) for kind in KINDS], abs=0.1)
    assert (carrier if carrier != "itself" else "") == onnx.carrier(precision)
    assert float(held) == near(held_bits(precision, tmp_path), abs=0.02)


@pytest.mark.parametrize("precision", ROUNDED)
def test_the_built_in_model_diverges_as_stated(tmp_path: Path, precision: str, reference: np.ndarray) -> None:
    found = log_probabilities(precision, tmp_path)
    divergence = (np.exp(reference) * (reference - found)).sum(-1).mean()
    with_blocks, *without = re.findall(r"[\d.]+", table()[precision][4])
    stated = float(without[0] if without and not has_fast_int8() else with_blocks)
    assert stated / 1.5 < divergence < stated * 1.5  # other processors' kernels add up in another order
