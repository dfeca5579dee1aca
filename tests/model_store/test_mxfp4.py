"""Experts in mxfp4: kept to the bit where a precision can, rounded once more by what is told where it cannot."""

from pathlib import Path

import numpy as np
import pytest

import backends
from backends.decoder import Quantized, Weight
from backends.quantize import PRECISIONS, Rounded, dequantize
from backends.reference import Session
from model_store.checkpoint import mxfp4
from model_store.checkpoint.kept import Kept
from model_store.checkpoint.weights import Canonical
from model_store.convert import kept, open_checkpoint
from model_store.gguf import open_gguf
from support.checkpoints import HERE
from support.gguf_conversion import rounded
from support.golden_logits import GOLDEN
from support.pulls import foreseen

CASE = GOLDEN / "gpt_oss-mxfp4"


def values_of(weights: Canonical | Kept | Rounded, name: str) -> np.ndarray:
    return np.asarray(dequantize(weights[name].values), np.float32)


def test_a_checkpoint_and_a_gguf_file_keep_the_same_numbers(tmp_path: Path) -> None:
    checkpoint, family, decoder = open_checkpoint(CASE)
    weights = Canonical(checkpoint, family, decoder)
    held = kept(checkpoint, weights, checkpoint.exact)
    assert (checkpoint.precision, checkpoint.exact) == ("int4-32", "int8-32")
    assert kept(checkpoint, weights, checkpoint.precision) is weights
    assert foreseen(CASE) == weights.parameters
    path = tmp_path / "model.gguf"
    path.write_bytes(rounded(CASE))
    file, architecture, same = open_gguf(path)
    assert (file.precision, file.exact, file.precision_reason) == ("int4-32", "int8-32", mxfp4.REASON)
    other = Kept(Canonical(file, architecture, same))
    experts = [name for name in weights if ".experts." in name]
    assert len(experts) == 24
    for name in experts:
        assert isinstance(held[name].values, Quantized) and isinstance(other[name].values, Quantized)
        assert np.array_equal(values_of(held, name), values_of(weights, name))
        assert np.array_equal(values_of(other, name), values_of(weights, name))
        assert np.array_equal(np.asarray(other[name].bias), np.asarray(weights[name].bias))


@pytest.mark.parametrize("backend", HERE)
def test_what_is_kept_is_computed_with(tmp_path: Path, backend: str) -> None:
    checkpoint, family, decoder = open_checkpoint(CASE)
    held = Kept(Canonical(checkpoint, family, decoder))
    backends.get(backend).lower(decoder, held, tmp_path, precision=checkpoint.exact)
    tokens = np.load(CASE / "golden.npz")["tokens"]
    expected = Session(decoder, Rounded(held, PRECISIONS[checkpoint.exact])).forward(tokens, last=24)
    error = np.abs(backends.get(backend).load(tmp_path, device="cpu").forward(tokens, last=24) - expected).mean(-1)
    assert np.median(error) < 0.03 * expected.std()  # activations have eight bits


def test_rounding_once_more_loses_what_is_told() -> None:
    random = np.random.default_rng(0).standard_normal((256, 1024), np.float32)
    exact = dequantize(Rounded({"x": Weight("x", random)}, PRECISIONS["mxfp4"])["x"].values)
    again = dequantize(Rounded({"x": Weight("x", exact)}, PRECISIONS[mxfp4.PRECISION])["x"].values)
    assert np.sqrt(np.mean((again - exact) ** 2) / np.mean(exact**2)) == pytest.approx(0.073, abs=0.003)
    assert np.array_equal(dequantize(Rounded({"x": Weight("x", exact)}, PRECISIONS["mxfp4"])["x"].values), exact)
