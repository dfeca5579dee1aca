"""The microscaling formats are rounded to as their specifications say, element by element."""

import ml_dtypes
import numpy as np
import pytest

from backends.decoder import Quantized
from backends.quantize import PRECISIONS, dequantize, rounded

OCP = {
    "mxfp4": (ml_dtypes.float4_e2m1fn, 6, 2),
    "mxfp6-e2m3": (ml_dtypes.float6_e2m3fn, 7.5, 8),
    "mxfp6-e3m2": (ml_dtypes.float6_e3m2fn, 28, 16),
}
"""The type of an element, the largest one, and how many units are one."""
LEVELS = {"mx4": 2, "mx6": 4, "mx9": 7}
"""Bits of an element's magnitude."""


def weights() -> np.ndarray:
    """Rows (96, 256) of many sizes and tails, with zeros, ties and whole blocks of zeros."""
    random = np.random.default_rng(3)
    rows = [random.standard_normal((24, 256)), random.standard_t(3, (24, 256)), random.laplace(size=(24, 256))]
    ties = random.integers(-64, 65, (24, 256)) / 8
    values = np.concatenate([*rows, ties]) * np.exp2(random.integers(-30, 30, (96, 1)))
    values[:, 64:96] = 0
    return values.astype(np.float32)


def exponent(x: np.ndarray) -> np.ndarray:
    """floor(log2(x)), by counting; x > 0."""
    return np.asarray(np.floor(np.log2(x.astype(np.float64))))


def round_to(name: str, values: np.ndarray) -> Quantized:
    return rounded(np.asarray(values, np.float32), PRECISIONS[name])


@pytest.mark.parametrize("name", OCP)
def test_ocp_floats_are_those_of_ml_dtypes(name: str) -> None:
    element, limit, units = OCP[name]
    blocks = weights().reshape(96, 8, 32).astype(np.float64)
    extreme = np.abs(blocks).max(2, keepdims=True)
    scales = np.exp2(exponent(np.where(extreme, extreme, 1)) - np.floor(np.log2(limit)))
    expected = np.clip(blocks / scales, -limit, limit).astype(element).astype(np.float64) * scales
    quantized = round_to(name, weights())
    assert np.array_equal(dequantize(quantized), expected.reshape(96, 256))
    numbers = quantized.values.astype(np.float32) / units
    assert np.array_equal(numbers.astype(element).astype(np.float32), numbers)  # so a native type can hold them


@pytest.mark.parametrize("name", OCP)
def test_every_element_of_an_ocp_float_is_exact(name: str) -> None:
    element, limit, units = OCP[name]
    codes = np.arange(256, dtype=np.uint8)[: 1 << (4 if name == "mxfp4" else 6)]
    known = codes.view(element).astype(np.float32)
    blocks = np.stack([np.resize(known[start : start + 31], 32) for start in range(0, len(known), 31)])
    blocks[:, 31] = limit
    assert np.array_equal(dequantize(round_to(name, blocks)), blocks)
    assert np.abs(round_to(name, blocks).values).max() == limit * units


def test_mxint8_is_a_whole_number_of_64ths_without_the_lopsided_least_one() -> None:
    blocks = weights().reshape(96, 8, 32).astype(np.float64)
    extreme = np.abs(blocks).max(2, keepdims=True)
    scales = np.exp2(exponent(np.where(extreme, extreme, 1)))
    expected = np.clip(np.rint(blocks / scales * 64), -127, 127) / 64 * scales
    assert np.array_equal(dequantize(round_to("mxint8", weights())), expected.reshape(96, 256))
    edge = np.full((1, 32), -1.999)
    assert np.array_equal(round_to("mxint8", edge).values, np.full((1, 32), -127))


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6-e2m3", "mxfp6-e3m2", "mxint8"])
def test_scales_are_powers_of_two_that_the_native_type_holds(name: str) -> None:
    units = 64 if name == "mxint8" else OCP[name][2]
    scales = round_to(name, weights()).scales * units
    assert np.array_equal(scales.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32), scales)


def shared_microexponents(block: np.ndarray, magnitude: int) -> list[float]:
    """Sixteen values by the definition of arXiv 2302.08007: sign * M * 2 ** (E - tau - (m - 1)), M < 2 ** m."""
    if not block.any():
        return [0.0] * 16
    shared = int(exponent(np.abs(block).max()))
    found = []
    for pair in block.reshape(8, 2):
        own = int(exponent(np.abs(pair).max())) if pair.any() else -1000
        step = 2.0 ** (shared - min(shared - own, 1) - (magnitude - 1))
        for value in pair:
            sign = -1 if value < 0 else 1
            found.append(sign * min(round(abs(float(value)) / step), 2**magnitude - 1) * step)
    return found


@pytest.mark.parametrize("name", LEVELS)
def test_two_levels_follow_their_definition_pair_by_pair(name: str) -> None:
    values = weights()[::4]
    expected = [shared_microexponents(block, LEVELS[name]) for block in values.reshape(-1, 16)]
    assert np.array_equal(dequantize(round_to(name, values)), np.reshape(expected, values.shape))


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("mxfp4", [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 5.1, -7], [0, 1, 1, 2, 2, 4, 4, 6, -6]),
        ("mxfp6-e2m3", [0.0625, 0.1875, 1.0625, 3.125, 7.75], [0, 0.25, 1, 3, 7.5]),
        ("mxfp6-e3m2", [0.03125, 0.09375, 1.125, 18, -31], [0, 0.125, 1, 16, -28]),
        ("mx4", [3.5, 0, 2.5, 0, 0.5, 0.25, 0.75, 0], [3, 0, 2, 0, 0.5, 0, 1, 0]),
    ],
)
def test_ties_go_to_the_even_element_and_what_is_too_large_saturates(
    name: str, given: list[float], kept: list[float]
) -> None:
    block = np.zeros((1, 32), np.float32)
    block[0, : len(given)] = given
    assert dequantize(round_to(name, block))[0, : len(kept)].tolist() == kept


@pytest.mark.parametrize("name", [*OCP, "mxint8", *LEVELS])
def test_the_smallest_and_largest_numbers_stay_finite_and_near(name: str) -> None:
    bits = 2 if name in ("mxfp4", "mx4") else 3
    for size in (1e-30, 3e38):
        block = np.linspace(-size, size, 32)[None]
        restored = dequantize(round_to(name, block))
        assert np.isfinite(restored).all()
        assert restored == pytest.approx(block, abs=size / 2**bits)
    assert np.isfinite(dequantize(round_to(name, np.full((1, 32), 1e-42)))).all()


@pytest.mark.parametrize("name", [*OCP, "mxint8", *LEVELS])
def test_values_fit_what_carries_them(name: str) -> None:
    quantized = round_to(name, weights())
    assert (quantized.format, quantized.bits) == (name, PRECISIONS[name].bits)
    carriers = {"mx4": np.uint8, "mx9": np.int16, "mxfp6-e3m2": np.int16}
    assert quantized.values.dtype == carriers.get(name, np.int8)
    assert quantized.block == (16 if name in LEVELS else 32)
