"""Comparing arrays."""

import numpy as np


class near:  # noqa: N801  # reads as `pytest.approx`, which takes a step of Python for each number
    """`found == near(expected, abs=1e-4)`: the same shape, and no number farther off than that."""

    __array_ufunc__ = None  # an array on the left asks this

    def __init__(self, expected: object, *, abs: float) -> None:
        self.expected, self.tolerance, self.off = np.asarray(expected), abs, "not compared"

    def __eq__(self, found: object) -> bool:
        numbers = np.asarray(found)
        if numbers.shape != self.expected.shape:
            self.off = f"the shape is {numbers.shape}"
            return False
        with np.errstate(invalid="ignore"):  # infinities are equal, and have no difference
            apart = np.where(numbers == self.expected, 0.0, np.abs(numbers - self.expected))
        self.off = f"the largest difference is {apart.max(initial=0.0)}"
        return bool((apart <= self.tolerance).all())

    def __repr__(self) -> str:
        return f"{self.expected} ± {self.tolerance} ({self.off})"
