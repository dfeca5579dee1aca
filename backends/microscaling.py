"""Round to the microscaling formats: small numbers that share a power of two.

One level is the OCP Microscaling Formats specification 1.0, two levels are shared microexponents (arXiv 2302.08007).
An element of any of them is a whole number of units, and a unit a power of two for each block: that is what is
returned. Ties go to the even element, and what is larger than the largest element becomes it.
"""

import numpy as np

SMALLEST = -126
"""The least exponent of a unit, as in float32; OCP's scales end at 2**-127."""


def in_units(x: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks `x` (..., block) in units, and the units (...): the largest value has the exponent of the element `top`.

    That is OCP's scale of 2 ** (floor(log2(largest)) - emax). A block of zeros, for which OCP leaves it open, gets
    the exponent of a half.
    """
    exponents = np.frexp(np.abs(x).max(-1))[1] - top.bit_length()
    exponents = np.maximum(exponents, SMALLEST)
    return np.ldexp(x, -exponents[..., None]), np.ldexp(np.float32(1), exponents)


def one_level(x: np.ndarray, *, top: int, mantissa: int) -> tuple[np.ndarray, np.ndarray]:
    """Elements up to `top` units that keep `mantissa` bits after the leading one."""
    x, units = in_units(x, top)
    steps = np.ldexp(np.float32(1), np.maximum(np.frexp(x)[1] - 1 - mantissa, 0))
    return np.clip(np.rint(x / steps) * steps, -top, top), units


def two_levels(x: np.ndarray, *, magnitude: int) -> tuple[np.ndarray, np.ndarray]:
    """Elements of a sign and `magnitude` bits; the block shares a unit, which small pairs halve by a bit of their own.

    A unit here is that half.
    """
    top = (1 << magnitude) - 1
    halves, units = in_units(x, 2 * top)
    size = np.abs(halves)
    small = np.maximum(size[..., ::2], size[..., 1::2]) < 1 << magnitude
    steps = np.where(small, np.float32(1), np.float32(2)).repeat(2, axis=-1)
    return np.clip(np.rint(halves / steps), -top, top) * steps, units
