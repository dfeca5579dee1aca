"""The two ways to lay out hidden states, and what depends on them."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from backends.coreml.inputs import Layout
from backends.coreml.tools import Var, mb


class Laid(Protocol):
    """What a layout says."""

    axis: int
    """Where the hidden elements are."""

    def shape(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix (out, in), or its scales, as `linear` wants it."""

    def linear(self, x: Var, weight: Var, bias: Var) -> Var: ...
    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        """Split hidden states into (1, heads, T, head_dim)."""

    def joined(self, x: Var) -> Var:
        """The opposite."""


class Channels:
    """(1, hidden, 1, T), multiplied by 1x1 convolutions: what Apple's Neural Engine computes best.

    https://machinelearning.apple.com/research/neural-engine-transformers
    """

    axis = 1

    def shape(self, matrix: np.ndarray) -> np.ndarray:
        return matrix[:, :, None, None]

    def linear(self, x: Var, weight: Var, bias: Var) -> Var:
        return mb.conv(x=x, weight=weight, bias=bias)

    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        return mb.transpose(x=mb.reshape(x=x, shape=[1, count, head_dim, x.shape[3]]), perm=[0, 1, 3, 2])

    def joined(self, x: Var) -> Var:
        _, heads, length, head_dim = x.shape
        return mb.reshape(x=mb.transpose(x=x, perm=[0, 1, 3, 2]), shape=[1, heads * head_dim, 1, length])


class Plain:
    """(1, T, hidden), multiplied by matrices, for the GPU and the processor."""

    axis = 2

    def shape(self, matrix: np.ndarray) -> np.ndarray:
        return matrix

    def linear(self, x: Var, weight: Var, bias: Var) -> Var:
        return mb.linear(x=x, weight=weight, bias=bias)

    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        return mb.transpose(x=mb.reshape(x=x, shape=[1, x.shape[1], count, head_dim]), perm=[0, 2, 1, 3])

    def joined(self, x: Var) -> Var:
        _, heads, length, head_dim = x.shape
        return mb.reshape(x=mb.transpose(x=x, perm=[0, 2, 1, 3]), shape=[1, length, heads * head_dim])


LAYOUTS: Mapping[Layout, Laid] = {"channels": Channels(), "plain": Plain()}
