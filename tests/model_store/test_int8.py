"""Matrices in int8 with a scale for each row, as the built-in model is shipped: kept to the bit at int8."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from backends.decoder import Quantized
from backends.quantize import PRECISIONS, Rounded, dequantize, rounded
from model_store import UnsupportedCheckpoint
from model_store.checkpoint import int8
from model_store.checkpoint.weights import Canonical
from model_store.convert import describe, kept, open_checkpoint
from model_store.exports import Source
from model_store.exports.decoders import copy_published
from support.checkpoints import MakeCheckpoint

INT8 = PRECISIONS["int8"]


def in_int8(folder: Path) -> dict[str, Quantized]:
    """Round the matrices of a checkpoint; what they became, by name."""
    path, found = folder / "model.safetensors", dict[str, Quantized]()
    tensors = load_file(path)
    for name, values in list(tensors.items()):
        if values.ndim == 2:
            found[name] = rounded(values, INT8)
            tensors |= {name: found[name].values, name + int8.SCALE: found[name].scales}
    save_file(tensors, path)
    return found


def test_it_is_computed_with_as_it_is_and_read_exactly(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(quantization_config=int8.CONFIG)
    plain, family, decoder = open_checkpoint(folder)
    before = dict(Rounded(Canonical(plain, family, decoder), INT8))
    in_int8(folder)
    opened, family, decoder = open_checkpoint(folder)
    weights = Canonical(opened, family, decoder)
    for found in kept(opened, weights, "int8"), Rounded(weights, INT8):  # rounding it again changes nothing
        for name, weight in before.items():
            one, other = found[name].values, weight.values
            if isinstance(other, Quantized):
                assert isinstance(one, Quantized) and one.block == other.block
                assert np.array_equal(one.values, other.values) and np.array_equal(one.scales, other.scales)
            assert np.array_equal(dequantize(weights[name].values), dequantize(other))


def test_it_is_told_and_the_default(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(quantization_config=int8.CONFIG)
    whole = describe(folder).parameters
    in_int8(folder)
    model = describe(folder)
    assert (model.precision, model.precision_reason, model.parameters) == ("int8", int8.REASON, whole)


def test_what_does_not_fit_is_refused(checkpoint: MakeCheckpoint) -> None:
    folder, name = checkpoint(), "model.embed_tokens.weight"
    in_int8(folder)
    tensors = load_file(folder / "model.safetensors")
    for scales in tensors[name + int8.SCALE].ravel(), tensors[name + int8.SCALE][1:]:
        save_file({**tensors, name + int8.SCALE: scales}, folder / "model.safetensors")
        with pytest.raises(UnsupportedCheckpoint, match=f"the tensors {name} .* do not fit each other"):
            open_checkpoint(folder)
    del tensors[name + int8.SCALE]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match="lacks the tensor embed_tokens.weight"):
        describe(folder)


def test_others_that_are_rounded_are_refused(checkpoint: MakeCheckpoint) -> None:
    config = json.loads(json.dumps(int8.CONFIG).replace('"channel"', '"group"'))
    with pytest.raises(UnsupportedCheckpoint, match="rounded already .*compressed-tensors"):
        describe(checkpoint(quantization_config=config))


def test_an_export_does_not_say_that_its_weights_are_so(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = checkpoint(quantization_config=int8.CONFIG)
    in_int8(folder)
    (out := tmp_path / "out").mkdir()
    copy_published(Source(describe(folder), folder / "tokenizer.json"), out)
    written = json.loads((out / "config.json").read_text())
    assert "quantization_config" not in written and written["hidden_size"] == 64
