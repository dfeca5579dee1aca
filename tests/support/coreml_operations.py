"""The operations of MIL that this backend writes, or meets in exports, in NumPy: whatever else is there is refused.

https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from backends import BackendError
from backends.reference import ACTIVATIONS

Array = np.ndarray
GELU = {"EXACT": ACTIVATIONS["gelu"], "TANH_APPROXIMATION": ACTIVATIONS["gelu_tanh"]}


def require(holds: bool | np.bool, what: str) -> None:
    """Refuse a form of an operation that is not computed here."""
    if not holds:
        raise BackendError(f"the program has {what}, which the interpreter does not know")


def conv(
    x: Array,
    weight: Array,
    *,
    bias: Array,
    strides: Array,
    pad_type: Array,
    pad: Array,
    dilations: Array,
    groups: Array,
) -> Array:
    """1x1: (B, C, H, W) -> (B, out, H, W)."""
    plain = weight.shape[2:] == (1, 1) and str(pad_type) == "valid" and int(groups) == 1
    require(plain, "a convolution other than 1x1")
    require(np.all(strides == 1) and np.all(dilations == 1) and np.all(pad == 0), "a convolution with strides")
    product: Array = np.einsum("oc,bchw->bohw", weight[:, :, 0, 0], x, optimize=True) + bias[:, None, None]
    return product


def linear(x: Array, weight: Array, *, bias: Array) -> Array:
    product: Array = x @ weight.T + bias
    return product


def matmul(x: Array, y: Array, *, transpose_x: Array, transpose_y: Array) -> Array:
    product: Array = (x.swapaxes(-1, -2) if transpose_x else x) @ (y.swapaxes(-1, -2) if transpose_y else y)
    return product


def layer_norm(x: Array, axes: Array, *, gamma: Array, beta: Array | None = None, epsilon: Array) -> Array:
    require(len(axes) == 1, "a layer norm along several axes")
    shape = [1] * x.ndim
    shape[int(axes[0])] = -1
    centred = x - x.mean(int(axes[0]), keepdims=True)
    variance = np.square(centred).mean(int(axes[0]), keepdims=True)
    scaled: Array = centred / np.sqrt(variance + epsilon) * gamma.reshape(shape)
    return scaled if beta is None else scaled + beta.reshape(shape)


def softmax(x: Array, axis: Array) -> Array:
    powers = np.exp(x - x.max(int(axis), keepdims=True))
    probabilities: Array = powers / powers.sum(int(axis), keepdims=True)
    return probabilities


def gelu(x: Array, mode: Array) -> Array:
    return np.asarray(GELU[str(mode)](x), x.dtype)


def reshape(x: Array, shape: Array) -> Array:
    require(np.all(shape != 0), "a shape to be copied")
    return x.reshape(shape)


def concat(values: Sequence[Array], axis: Array, *, interleave: Array) -> Array:
    require(not bool(interleave), "an interleaving concat")
    return np.concatenate(values, int(axis))


def split(x: Array, num_splits: Array, axis: Array) -> list[Array]:
    return np.split(x, int(num_splits), int(axis))


def slice_by_index(x: Array, begin: Array, end: Array, **masks: Array) -> Array:
    require(not any(np.any(mask) for mask in masks.values()), "a slice with masks")
    return x[bounds(begin, end, x.shape)]


def slice_update(x: Array, update: Array, begin: Array, end: Array, **masks: Array) -> Array:
    require(not any(np.any(mask) for mask in masks.values()), "a slice with masks")
    updated = x.copy()
    updated[bounds(begin, end, x.shape)] = update
    return updated


def bounds(begin: Array, end: Array, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The slice from `begin` to `end`, which Core ML leaves undefined outside of `shape`."""
    if np.any(begin < 0) or np.any(begin >= end) or np.any(end > shape):
        raise BackendError(f"the program slices {list(begin)} to {list(end)} of the shape {list(shape)}")
    return tuple(slice(int(b), int(e)) for b, e in zip(begin, end, strict=True))


def reduce(by: Callable[..., Array], x: Array, axes: Array, *, keep_dims: Array) -> Array:
    return np.asarray(by(x, axis=tuple(map(int, axes)), keepdims=bool(keep_dims)))


def constexpr_blockwise_shift_scale(data: Array, scale: Array, *, offset: Array | None = None) -> Array:
    """`(data - offset) * scale`, each scale for as many neighbours as there are fewer of them."""
    for axis, (size, count) in enumerate(zip(data.shape, scale.shape, strict=True)):
        scale = scale.repeat(size // count, axis)
        offset = None if offset is None else offset.repeat(size // count, axis)
    numbers = data.astype(np.float32)
    return np.asarray((numbers if offset is None else numbers - offset) * scale)


def gather(x: Array, indices: Array, axis: Array, *, batch_dims: Array, validate_indices: Array) -> Array:
    require(int(batch_dims) == 0, "a gather in batches")
    return x.take(indices, int(axis))


def gather_along_axis(x: Array, indices: Array, axis: Array, *, validate_indices: Array) -> Array:
    return np.take_along_axis(x, indices.astype(np.int64), int(axis))


def topk(
    x: Array,
    k: Array,
    axis: Array,
    ascending: Array,
    *,
    sort: Array,
    return_indices: Array,
    output_indices_dtype: Array,
) -> list[Array]:
    plain = not bool(ascending) and bool(sort) and bool(return_indices) and str(output_indices_dtype) == "int32"
    require(plain, "a topk that is not of the largest, in order, with their places")
    places = np.argsort(-x, int(axis), kind="stable").take(range(int(k)), int(axis))
    return [np.take_along_axis(x, places, int(axis)), places.astype(np.int32)]


OPERATIONS: Mapping[str, Callable[..., Array | list[Array]]] = {
    "identity": lambda x: x,
    "abs": lambda x: np.abs(x),
    "cast": lambda x, dtype: x.astype({"fp16": np.float32, "fp32": np.float32, "int32": np.int32}[str(dtype)]),
    "exp": lambda x: np.exp(x),
    "floor": lambda x: np.floor(x),
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "greater_equal": lambda x, y: x >= y,
    "less_equal": lambda x, y: x <= y,
    "maximum": lambda x, y: np.maximum(x, y),
    "reduce_min": partial(reduce, np.min),
    "select": lambda cond, a, b: np.asarray(np.where(cond, a, b)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "stack": lambda values, axis: np.stack(values, int(axis)),
    "topk": topk,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "real_div": lambda x, y: x / y,
    "tanh": lambda x: np.tanh(x),
    "relu": lambda x: np.maximum(x, 0),
    "clip": lambda x, alpha, beta: np.clip(x, alpha, beta),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "transpose": lambda x, perm: x.transpose(perm),
    "concat": concat,
    "constexpr_blockwise_shift_scale": constexpr_blockwise_shift_scale,
    "conv": conv,
    "gelu": gelu,
    "layer_norm": layer_norm,
    "linear": linear,
    "matmul": matmul,
    "reduce_sum": partial(reduce, np.sum),
    "reshape": reshape,
    "slice_by_index": slice_by_index,
    "slice_update": slice_update,
    "softmax": softmax,
    "split": split,
}
"""Functions of an operation's inputs, by its name."""


FOREIGN: Mapping[str, Callable[..., Array | list[Array]]] = {
    "shape": lambda x: np.array(x.shape, np.int32),
}
"""What only packages of others have."""
