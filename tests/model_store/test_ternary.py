"""BitNet's matrices in two bits a weight: what they are unpacked to, and what else is refused."""

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from backends.decoder import Quantized
from backends.quantize import dequantize
from model_store import UnsupportedCheckpoint
from model_store.checkpoint.kept import Kept
from model_store.checkpoint.ternary import KIND, fits
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support.pulls import foreseen
from support.respelled_checkpoints import Tensors, configure, respelled

GATE, DOWN = "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.down_proj.weight"


def signs_of(values: np.ndarray) -> np.ndarray:
    return np.sign(np.rint(np.asarray(values, np.float32) * 5)).astype(np.int8)


def unpacked(found: Tensors) -> Tensors:
    """Matrices of three numbers, as floats."""
    return {name: np.float32(0.5) * signs_of(one) if "_proj" in name else one for name, one in found.items()}


def packed(found: Tensors) -> Tensors:
    """The same as they are published."""
    made: Tensors = {}
    for name, values in found.items():
        made[name] = values
        if "_proj" in name:
            first, second, third, fourth = np.split((signs_of(values) + 1).astype(np.uint8), 4)
            made[name] = first | second << 2 | third << 4 | fourth << 6
            made[name + "_scale"] = np.array([0.5], np.float32)
    return made


def opened(folder: Path, change: Callable[[Tensors], Tensors] = packed, **quantization: object) -> Canonical:
    folder.mkdir(exist_ok=True)
    copy = respelled("bitnet", folder, change)
    usual = {"quant_method": KIND, "linear_class": "autobitlinear", "modules_to_not_convert": ["lm_head"]}
    configure(copy, quantization_config={**usual, **quantization})
    return Canonical(*open_checkpoint(copy))


def test_packed_matrices_are_what_they_stand_for_and_kept_as_they_are(tmp_path: Path) -> None:
    found, expected = opened(tmp_path / "packed"), opened(tmp_path / "floats", unpacked)
    kept = Kept(found)
    assert found.keys() == expected.keys()
    assert foreseen(tmp_path / "packed" / "bitnet") == expected.parameters
    for name, weight in expected.items():
        assert np.array_equal(np.asarray(found[name].values), np.asarray(weight.values)), name
        if name.endswith("_proj"):
            values = kept[name].values
            assert isinstance(values, Quantized) and values.bits == 4, name
            assert np.array_equal(dequantize(values), np.asarray(weight.values)), name


def test_numbers_are_divided_by_their_scale_where_the_class_is_another_one(tmp_path: Path) -> None:
    """As transformers' BitLinear does, by which Llama and Falcon of 1.58 bits are published."""
    multiplied = opened(tmp_path / "one")["layers.0.down_proj"]
    for said in "bitlinear", None:
        found = opened(tmp_path / str(said), linear_class=said)["layers.0.down_proj"]
        assert np.array_equal(np.asarray(found.values), 4 * np.asarray(multiplied.values))  # 1 / 0.5 instead of 0.5
    assert fits("llama", {"quant_method": "bitnet"})


def test_matrices_in_bfloat16_are_rounded_while_they_are_read(tmp_path: Path) -> None:
    """As transformers' AutoBitLinear does: WeightQuant in its integrations/bitnet.py."""
    bfloat16, held = np.dtype(ml_dtypes.bfloat16), Tensors()

    def change(found: Tensors) -> Tensors:
        held.update({name: values.astype(bfloat16) for name, values in found.items()})
        return held

    found = opened(tmp_path, change, quantization_mode="online")
    values = held[DOWN].astype(np.float32)
    scale = 1 / np.abs(values).mean()
    expected = (np.clip(np.rint(values * scale), -1, 1) / scale).astype(bfloat16).astype(np.float32)
    assert np.array_equal(np.asarray(found["layers.1.down_proj"].values), expected)
    kept = Kept(found)["layers.1.down_proj"].values
    assert isinstance(kept, Quantized) and np.array_equal(dequantize(kept), expected)
    assert np.array_equal(np.asarray(found["embedding"].values), held["model.embed_tokens.weight"])


def without_scale(found: Tensors) -> Tensors:
    return {name: values for name, values in packed(found).items() if name != GATE + "_scale"}


ONLINE: dict[str, object] = {"quantization_mode": "online"}
WRONG: dict[str, tuple[Callable[[Tensors], Tensors], dict[str, object], str]] = {
    "numbers": (lambda found: {**packed(found), GATE: packed(found)[GATE] | 3}, {}, "none of -1, 0 and 1; download"),
    "no scale": (without_scale, {}, "gate_proj.weight_scale .missing. do not fit each other"),
    "a mode": (dict, {"quantization_mode": "x"}, "quantization_mode .*x.*, and only 'offline' or 'online'"),
    "but for some": (dict, ONLINE | {"modules_to_not_convert": ["o_proj"]}, "modules_to_not_convert .* only .*lm_head"),
    "another class": (packed, {"linear_class": "linear"}, "linear_class .*linear.*, and only 'autobitlinear' or"),
    "rounded and divided": (dict, ONLINE | {"linear_class": "bitlinear"}, "linear_class .*, and only 'autobitlinear'"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_another_kind_of_bitnet_is_refused_with_the_reason(what: str, tmp_path: Path) -> None:
    change, quantization, says = WRONG[what]
    with pytest.raises(UnsupportedCheckpoint, match=says):
        dict(opened(tmp_path, change, **quantization))
