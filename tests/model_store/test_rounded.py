"""Matrices that libraries have rounded: read as these read them, and kept as they are where a precision can."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from backends.decoder import Quantized
from backends.quantize import dequantize
from model_store import UnsupportedCheckpoint
from model_store.checkpoint import packed, rounded
from model_store.checkpoint.checkpoint import DTYPES, ROUNDED, Checkpoint, tensors
from model_store.checkpoint.kept import Kept
from model_store.checkpoint.tensor import Tensor, Told
from model_store.checkpoint.weights import Canonical
from model_store.convert import describe, open_checkpoint
from model_store.fit import count_weights
from support.checkpoints import TESTS, MakeCheckpoint
from support.respelled_checkpoints import Tensors, configure, respelled

PATH = TESTS / "golden_rounded.safetensors"
with safe_open(PATH, "np") as opened:
    CONFIGS = {name: json.loads(config) for name, config in sorted(opened.metadata().items())}
FOUND = tensors(PATH, DTYPES | ROUNDED)
SPELT = {dtype: name for name, dtype in (DTYPES | ROUNDED).items()}
SUITS = {
    "awq": "int4-asym-32", "bitsandbytes int8": "int8", "compressed int4": "int4-32", "compressed int8": "int8",
    "compressed int4 asymmetric": "int4-asym-32", "compressed int8 packed": "int8", "compressed nvfp4": "int4-32",
    "fp4": "int8-64", "gptq": "int4-32", "gptq asymmetric": "int4-asym-32", "gptq of 8 bits": "int8-asym-32",
    "gptq shuffled": "int8-128", "nf4": "int8-64",
}  # fmt: skip
"""The precision of each, where it is not the usual one."""
ROUNDED_AGAIN = {"fp4", "gptq shuffled", "nf4"}


def parts_of(case: str) -> dict[str, Tensor]:
    """The tensors of a matrix, under names as checkpoints have them."""
    parts = {name.partition("/")[2]: tensor for name, tensor in FOUND.items() if name.startswith(case + "/")}
    return {f"layers.0.up_proj.{part}": tensor for part, tensor in parts.items() if part != "expected"}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_matrix_is_read_as_its_library_reads_it(case: str) -> None:
    quantization = CONFIGS[case] if "config_groups" in CONFIGS[case] else {**CONFIGS[case], "group_size": 32}
    config = {"model_type": "llama", "quantization_config": quantization}
    found = rounded.join(parts_of(case), config)
    matrix, expected = found.pop("layers.0.up_proj.weight"), FOUND[case + "/expected"].read()
    assert not found and matrix.nbytes < expected.nbytes
    tolerance = 2**-8 if "nvfp4" in case else 1e-7  # compressed-tensors gives that in bfloat16
    np.testing.assert_allclose(matrix.read(), expected, rtol=tolerance, atol=1e-7)
    kept = matrix.quantized()
    assert matrix.told[0] == SUITS.get(case, "") and bool(matrix.told[2]) == (kept is not None)
    assert (kept is None) == (case in ROUNDED_AGAIN or case not in SUITS)
    if kept:
        assert np.array_equal(dequantize(kept), matrix.read())
    entries = {name: {"dtype": SPELT[tensor.dtype], "shape": tensor.shape} for name, tensor in parts_of(case).items()}
    bits = packed.scheme(quantization)["bits"]
    assert sum(count_weights(name, entries, bits) for name in entries) == expected.size
    assert rounded.foreseen(config)[0] == matrix.told[0]


@pytest.mark.parametrize("case", CONFIGS)
def test_tensors_that_do_not_fit_each_other_are_refused(case: str) -> None:
    parts = parts_of(case)
    beside = next(name for name in parts if name.endswith(("scale", "scale_inv", "scales", "absmax", "SCB")))
    *_, other = (tensor for name, tensor in FOUND.items() if name == "gptq/g_idx")
    with pytest.raises(UnsupportedCheckpoint, match=r"layers\.0\.up_proj.*do not fit each other.*download"):
        rounded.join({**parts, beside: other}, {"model_type": "llama", "quantization_config": CONFIGS[case]})


def test_tiles_need_not_divide_a_matrix(tmp_path: Path) -> None:
    numbers = np.arange(-30, 30, dtype=np.float32).reshape(6, 10).astype(ml_dtypes.float8_e4m3fn)
    scales = np.array([[1, 2, 4], [8, 16, 32]], np.float32)
    save_file({"x": numbers, "x_scale_inv": scales}, tmp_path / "model.safetensors")
    config = {"model_type": "deepseek_v3", "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}}
    found = rounded.join(tensors(tmp_path / "model.safetensors", DTYPES | ROUNDED), config)["x"]
    expected = [[numbers[i, j].astype(np.float32) * scales[i // 4, j // 4] for j in range(10)] for i in range(6)]
    assert np.array_equal(found.read(), expected)


def test_experts_in_fp8_are_read(tmp_path: Path) -> None:
    def change(found: Tensors) -> Tensors:
        made: Tensors = {}
        for name, values in found.items():
            made[name] = values
            if "_proj" in name or "experts." in name:
                made[name] = np.asarray(values, np.float32).astype(ml_dtypes.float8_e4m3fn)
                made[name + "_scale_inv"] = np.full([-(-size // 8) for size in values.shape], 0.5, np.float32)
        return made

    copy = respelled("minimax_m2", tmp_path, change)
    configure(copy, quantization_config={"quant_method": "fp8", "weight_block_size": [8, 8]})
    weights, plain = (Canonical(*open_checkpoint(folder)) for folder in (copy, TESTS / "golden" / "minimax_m2"))
    name = "layers.1.experts.2.down_proj"
    one, other = (np.asarray(each[name].values, np.float32) for each in (weights, plain))
    assert np.array_equal(one, other.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) / 2)


def test_queries_keys_and_values_keep_their_zero_points_beside_each_other(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(quantization_config={"quant_method": "awq", "bits": 4})
    found, random = load_file(folder / "model.safetensors"), np.random.default_rng(0)
    for name, values in list(found.items()):
        if "self_attn" in name and "o_proj" not in name:
            rows, columns = values.shape
            del found[name]
            stem = name.removesuffix("weight")
            found[f"{stem}qweight"] = random.integers(-(1 << 31), 1 << 31, (columns, rows // 8), np.int32)
            found[f"{stem}qzeros"] = random.integers(-(1 << 31), 1 << 31, (columns // 32, rows // 8), np.int32)
            found[f"{stem}scales"] = random.uniform(0.1, 1, (columns // 32, rows)).astype(np.float16)
    save_file(found, folder / "model.safetensors")
    weights = Canonical(*open_checkpoint(folder))
    kept = Kept(weights)["layers.0.qkv_proj"].values
    assert isinstance(kept, Quantized) and kept.zero_points is not None
    assert np.array_equal(dequantize(kept), np.asarray(weights["layers.0.qkv_proj"].values))
    assert describe(folder).precision == "int4-asym-32"


def test_columns_of_groups_that_are_none_are_refused() -> None:
    parts: dict[str, Any] = parts_of("gptq")
    config = {"model_type": "llama", "quantization_config": CONFIGS["gptq"]}
    matrix: Any = rounded.join(parts, config)["layers.0.up_proj.weight"]
    object.__setattr__(matrix, "groups", FOUND["gptq of 8 bits/qzeros"])
    with pytest.raises(UnsupportedCheckpoint, match="groups of columns that are none; download"):
        matrix.read()


def test_fp8_without_scales_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"x.weight": np.zeros(4, ml_dtypes.float8_e4m3fn)}, path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnsupportedCheckpoint, match=r"x\.weight is rounded to float8_e4m3fn and has no scale"):
        Checkpoint(tmp_path)


def test_modelopt_multiplies_where_compressed_tensors_divides() -> None:
    parts, up = parts_of("compressed nvfp4"), "layers.0.up_proj.weight"
    whole = parts.pop(f"{up}_global_scale")
    inverse = Told(whole.path, 0, 0, np.dtype(np.float32), whole.shape, numbers=1 / whole.read())
    parts |= {up: parts.pop(f"{up}_packed"), f"{up}_scale_2": inverse}
    config = {"model_type": "llama", "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
    expected = FOUND["compressed nvfp4/expected"].read()
    found = rounded.join(parts, config)[up]
    np.testing.assert_allclose(found.read(), expected, rtol=2**-8)
    assert rounded.foreseen(config) == found.told[:2]


@pytest.mark.parametrize("place", [(), ("config_groups", "group_0", "weights")])
def test_fields_of_other_versions_that_say_nothing_change_nothing(place: tuple[str, ...]) -> None:
    config = json.loads(json.dumps(CONFIGS["compressed int4"]))
    inner = reduce(dict.__getitem__, place, config)
    inner["spin"] = None
    rounded.refuse_rounded("llama", config)
    inner["spin"] = {"format": "dense"}
    with pytest.raises(UnsupportedCheckpoint, match="because of 'spin"):
        rounded.refuse_rounded("llama", config)
