"""Rounded weights are as near as their precision promises."""

import numpy as np
import pytest

from backends import BackendError
from backends.quantize import PRECISIONS, block_for, dequantize, precision, rounded

WEIGHT = np.random.default_rng(0).standard_normal((300, 256)).astype(np.float32)
BLOCKS = {
    f"int{bits}{kind}{suffix}": size
    for kind in ("", "-asym")
    for bits, sizes in {
        4: {"": 128, "-64": 64, "-32": 32, "-channel": 256},
        8: {"": 256, "-128": 128, "-64": 64, "-32": 32},
    }.items()
    for suffix, size in sizes.items()
}
"""Integer precisions, and how many of a row's 256 values share a scale."""


def test_integers_are_of_four_or_eight_bits_with_or_without_zero_points_in_four_sizes_of_block() -> None:
    assert set(BLOCKS) == {name for name in PRECISIONS if name.startswith("int")}


@pytest.mark.parametrize("name", BLOCKS)
def test_integers_are_within_half_a_step_but_at_the_end_of_a_lopsided_range(name: str) -> None:
    quantized, block = rounded(WEIGHT, PRECISIONS[name]), BLOCKS[name]
    assert quantized.bits == int(name[3]) and quantized.block == block and not quantized.format
    assert quantized.values.shape == (300, 32 * quantized.bits) and quantized.scales.shape == (300, 256 // block)
    steps = np.abs(quantized.scales)[:, :, None]
    error = np.abs(dequantize(quantized) - WEIGHT).reshape(300, -1, block) / steps
    assert np.quantile(error, 0.95) <= 0.5
    if name.startswith("int4") and quantized.zero_points is None:
        assert error.max() <= 1.0001  # 8 is not representable, where -8 is
    else:
        assert error.max() <= (0.5001 if quantized.zero_points is None else 1.0001)  # zero points are rounded too


def test_zero_points_are_there_for_the_asymmetric_only_and_zero_stays_exact() -> None:
    shifted = np.maximum(WEIGHT, 0)
    for name in BLOCKS:
        quantized = rounded(shifted, PRECISIONS[name])
        assert (quantized.zero_points is not None) == ("asym" in name)
        assert not dequantize(quantized)[shifted == 0].any()


@pytest.mark.parametrize(("symmetric", "asymmetric"), [("int4", "int4-asym"), ("int8", "int8-asym")])
def test_zero_points_halve_the_step_where_all_values_have_one_sign(symmetric: str, asymmetric: str) -> None:
    positive = np.abs(WEIGHT)
    with_sign, without = (np.abs(rounded(positive, PRECISIONS[name]).scales) for name in (symmetric, asymmetric))
    assert without == pytest.approx(with_sign * {"int4": 8 / 15, "int8": 127 / 255}[symmetric], rel=1e-5)


def test_the_extreme_of_each_block_is_exact() -> None:
    blocks, restored = WEIGHT.reshape(300, -1, 32), dequantize(rounded(WEIGHT, PRECISIONS["int4-32"]))
    at = np.abs(blocks).argmax(2)[..., None]
    exact = np.take_along_axis(blocks, at, 2)
    assert np.take_along_axis(restored.reshape(300, -1, 32), at, 2) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in PRECISIONS if PRECISIONS[name].round])
def test_rows_of_zeros_stay_zero_and_large_matrices_are_rounded_in_pieces(name: str) -> None:
    tall = np.tile(WEIGHT, (10, 1))
    tall[::7] = 0
    restored = dequantize(rounded(tall, PRECISIONS[name]))
    assert not restored[::7].any()
    assert np.array_equal(restored[1::7][:1], dequantize(rounded(tall[1:2], PRECISIONS[name])))
    assert np.array_equal(restored[2999], dequantize(rounded(tall[2999:], PRECISIONS[name]))[0])


def test_the_block_shrinks_until_it_divides_the_row_and_other_rows_are_int8() -> None:
    assert [block_for(size, 128) for size in (768, 1600, 96, 48, 40)] == [128, 64, 32, 16, 0]
    for name in ("int4", "int4-asym-channel", "int8-32", "mxfp4", "mx9"):
        quantized = rounded(WEIGHT[:, :40], PRECISIONS[name])
        assert (quantized.bits, quantized.block, quantized.format) == (8, 40, "")


@pytest.mark.parametrize("name", [name for name in PRECISIONS if PRECISIONS[name].round])
def test_chosen_rows_are_the_rows_of_the_whole(name: str) -> None:
    index = np.array([[3, 1], [0, 299]])
    quantized = rounded(WEIGHT, PRECISIONS[name])
    assert np.array_equal(dequantize(quantized, index), dequantize(quantized)[index])


def test_an_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BackendError, match="'int5'.*f32, f16, int8, int8-128.*int4-asym-32.*mxfp6-e2m3.*mx4"):
        precision("int5")
