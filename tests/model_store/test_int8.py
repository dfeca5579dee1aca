"""Matrices in int8 with a scale for each row, as the built-in model is shipped: kept to the bit at int8."""

import json
from pathlib import Path
from typing import Any

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
from support.pulls import foreseen

INT8 = PRECISIONS["int8"]


def in_int8(folder: Path, but: str = "") -> dict[str, Quantized]:
    """Round the matrices of a checkpoint, but for one; what they became, by name."""
    path, found = folder / "model.safetensors", dict[str, Quantized]()
    tensors = load_file(path)
    for name, values in list(tensors.items()):
        if values.ndim == 2 and name != but:
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
    assert foreseen(folder) == whole


def test_what_does_not_fit_is_refused(checkpoint: MakeCheckpoint) -> None:
    folder, name = checkpoint(), "model.embed_tokens.weight"
    in_int8(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, name + int8.SCALE: tensors[name + int8.SCALE][1:]}, folder / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=f"the tensors {name} .* do not fit each other"):
        open_checkpoint(folder)
    del tensors[name + int8.SCALE]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match="lacks the tensor embed_tokens.weight"):
        describe(folder)


W8A8: dict[str, Any] = {
    "config_groups": {
        "group_0": {
            "input_activations": {
                "actorder": None,
                "block_structure": None,
                "dynamic": True,
                "group_size": None,
                "num_bits": 8,
                "observer": None,
                "observer_kwargs": {},
                "strategy": "token",
                "symmetric": True,
                "type": "int",
            },
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "block_structure": None,
                "dynamic": False,
                "group_size": None,
                "num_bits": 8,
                "observer": "minmax",
                "observer_kwargs": {},
                "strategy": "channel",
                "symmetric": True,
                "type": "int",
            },
        }
    },
    "format": "int-quantized",
    "global_compression_ratio": 1.5,
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}
"""As compressed-tensors writes it."""


def changed(*path: str, value: object) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(json.dumps(W8A8))
    inner = config
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return config


def test_w8a8_runs_where_some_matrices_are_not_rounded(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(quantization_config=W8A8)
    in_int8(folder, but="model.embed_tokens.weight")
    model, _, _ = open_checkpoint(folder)
    assert describe(folder).precision == "int8"
    assert not isinstance(model.tensors["model.embed_tokens.weight"], int8.Int8Tensor)


GROUP = ("config_groups", "group_0")
OTHERS = {
    "another format": changed("format", value="marlin-24"),
    "no format": {name: value for name, value in W8A8.items() if name != "format"},
    "an unknown field": changed("spin", value=True),
    "a rounded cache": changed("kv_cache_scheme", value={"num_bits": 8}),
    "sparse": changed("sparsity_config", value={"format": "sparse-24-bitmask"}),
    "no group": changed("config_groups", value={}),
    "a group of nothing": changed(*GROUP, value=None),
    "four bits": changed(*GROUP, "weights", "num_bits", value=4),
    "floats": changed(*GROUP, "weights", "type", value="float"),
    "zero points": changed(*GROUP, "weights", "symmetric", value=False),
    "blocks": changed(*GROUP, "weights", "strategy", value="group"),
    "of a size": changed(*GROUP, "weights", "group_size", value=128),
    "out of order": changed(*GROUP, "weights", "actorder", value="group"),
    "no weights": changed(*GROUP, "weights", value=None),
    "activations measured before": changed(*GROUP, "input_activations", "dynamic", value=False),
    "activations of a whole call": changed(*GROUP, "input_activations", "strategy", value="tensor"),
    "answers": changed(*GROUP, "output_activations", value={"num_bits": 8}),
    "another format of a group": changed(*GROUP, "format", value="float-quantized"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_others_that_are_rounded_are_refused(checkpoint: MakeCheckpoint, what: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="rounded already, .*compressed-tensors"):
        describe(checkpoint(quantization_config=OTHERS[what]))


def test_an_export_does_not_say_that_its_weights_are_so(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = checkpoint(quantization_config=int8.CONFIG)
    in_int8(folder)
    (out := tmp_path / "out").mkdir()
    copy_published(Source(describe(folder), folder / "tokenizer.json"), out)
    written = json.loads((out / "config.json").read_text())
    assert "quantization_config" not in written and written["hidden_size"] == 64
