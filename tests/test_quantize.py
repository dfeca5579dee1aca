"""Rounded weights are as near as their precision promises."""

import numpy as np
import pytest

from backends import BackendError
from backends.quantize import PRECISIONS, Precision, block_for, dequantize, int4, int8, precision, rounded

WEIGHT = np.random.default_rng(0).standard_normal((300, 256)).astype(np.float32)


def test_int8_is_within_half_a_step_of_every_weight() -> None:
    quantized = int8(WEIGHT)
    assert quantized.values.dtype == np.int8 and quantized.values.shape == WEIGHT.shape
    assert np.all(np.abs(dequantize(quantized) - WEIGHT) <= quantized.scales * 0.5001)


@pytest.mark.parametrize("block", [32, 64, 128])
def test_int4_is_within_half_a_step_but_at_the_end_of_its_range(block: int) -> None:
    quantized = int4(WEIGHT, block)
    assert quantized.values.shape == (300, 128) and quantized.scales.shape == (300, 256 // block)
    error = np.abs(dequantize(quantized) - WEIGHT).reshape(300, -1, block)
    assert np.all(error <= np.abs(quantized.scales)[:, :, None] * 1.0001)  # +8 is not representable
    assert np.median(error / np.abs(quantized.scales)[:, :, None]) < 0.26


def test_the_extreme_of_each_block_is_exact() -> None:
    blocks, restored = WEIGHT.reshape(300, -1, 32), dequantize(int4(WEIGHT, 32)).reshape(300, -1, 32)
    at = np.abs(blocks).argmax(2)[..., None]
    assert np.take_along_axis(restored, at, 2) == pytest.approx(np.take_along_axis(blocks, at, 2), rel=1e-6)


@pytest.mark.parametrize("name", ["int8", "int4"])
def test_rows_of_zeros_stay_zero_and_large_matrices_are_rounded_in_pieces(name: str) -> None:
    tall = np.tile(WEIGHT, (10, 1))
    tall[::7] = 0
    restored = dequantize(rounded(tall, PRECISIONS[name]))
    assert not restored[::7].any()
    assert np.array_equal(restored[1::7][:1], dequantize(rounded(tall[1:2], PRECISIONS[name])))


def test_a_signal_to_noise_of_the_stated_size() -> None:
    def decibels(name: str) -> float:
        noise = dequantize(rounded(WEIGHT, PRECISIONS[name])) - WEIGHT
        return float(10 * np.log10((WEIGHT**2).sum() / (noise**2).sum()))

    assert decibels("int8") > 40
    assert 17 < decibels("int4") < decibels("int4-64") < decibels("int4-32")


def test_the_block_shrinks_until_it_divides_the_row() -> None:
    assert [block_for(size, 128) for size in (768, 1600, 96, 48, 40)] == [128, 64, 32, 16, 0]
    assert rounded(WEIGHT[:, :40], Precision(4, 128)).bits == 8


def test_chosen_rows_are_the_rows_of_the_whole() -> None:
    index = np.array([[3, 1], [0, 299]])
    for quantized in (int8(WEIGHT), int4(WEIGHT, 64)):
        assert np.array_equal(dequantize(quantized, index), dequantize(quantized)[index])


def test_an_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BackendError, match="'int5'.*f32, int8, int4"):
        precision("int5")
