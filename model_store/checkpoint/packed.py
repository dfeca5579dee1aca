"""Matrices of 4- or 8-bit integers packed into 32-bit words by GPTQ, AWQ and compressed-tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from backends.decoder import Quantized
from backends.quantize import LEAST, PRECISIONS
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

Method = Literal["compressed-tensors", "gptq", "awq"]
"""The packing method."""
NAMES: Mapping[str, tuple[str, str, str, str]] = {
    "compressed-tensors": ("weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx"),
    "gptq": ("qweight", "scales", "qzeros", "g_idx"),
    "awq": ("qweight", "scales", "qzeros", ""),
}
"""Names of words, scales, zero points, and the group of each column."""
SHAPE = "weight_shape"
"""The name of compressed-tensors' tensor with rows and columns."""
ORDER = [0, 4, 1, 5, 2, 6, 3, 7]
"""AWQ's order of eight neighbours."""
REASON = "the file has int{bits} in groups of {group}, which are kept as they are"
APART = "int8-128"
"""The suitable precision if groups are not of neighbours (`desc_act`)."""
REASON_APART = (
    "the file has int{bits} in groups that are not of neighbours, and is rounded once more here, to eight bits, by at"
    " most 1/254 of the largest of 128 weights"
)


@dataclass(frozen=True)
class PackedTensor(Tensor):
    """A matrix (out, in), read as float32."""

    method: Method = field(kw_only=True)
    bits: int = field(kw_only=True)
    asymmetric: bool = field(kw_only=True)
    """Whether zero points may differ from the middle of the range."""
    lift: int = field(kw_only=True)
    """Added to zero points: 1 where GPTQ stores one less."""
    words: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)
    zeros: Tensor | None = field(kw_only=True)
    """None: the middle of the range."""
    groups: Tensor | None = field(kw_only=True)
    """The group of each column; None: consecutive columns."""

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.words, self.scales, self.zeros, self.groups) if part)

    @property
    def count(self) -> int:
        """Groups per row."""
        return self.scales.size // self.shape[0]

    @property
    def told(self) -> tuple[str, str, str]:
        columns = self.shape[1]
        group = columns // self.count
        return suited(self.bits, group, columns=columns, asymmetric=self.asymmetric, apart=self.apart)

    @property
    def apart(self) -> bool:
        """Whether groups are not of neighbours."""
        return not np.array_equal(self.of_columns(), np.arange(self.shape[1]) // (self.shape[1] // self.count))

    def numbers(self) -> np.ndarray:
        """The unsigned numbers, (out, in)."""
        words = self.words.read()
        if self.method == "awq":
            return ordered(unpacked(words, self.bits)).T
        return unpacked(words.T if self.method == "gptq" else words, self.bits)[:, : self.shape[1]]

    def zero_points(self) -> np.ndarray:
        """The zero points, (out, groups)."""
        if self.zeros is None:
            return np.full((self.shape[0], self.count), 1 << self.bits - 1, np.uint8)
        words = self.zeros.read()
        if self.method == "compressed-tensors":
            return unpacked(words.T, self.bits)[:, : self.shape[0]].T
        found = unpacked(words, self.bits)
        return (ordered(found) if self.method == "awq" else found + np.uint8(self.lift) & (1 << self.bits) - 1).T

    def multipliers(self) -> np.ndarray:
        """The scales, (out, groups)."""
        scales = self.scales.read().astype(np.float32)
        return scales if self.method == "compressed-tensors" else scales.T

    def of_columns(self) -> np.ndarray:
        """The group of each column."""
        if self.groups is None:
            return np.arange(self.shape[1]) // (self.shape[1] // self.count)
        groups = self.groups.read()
        if groups.min() < 0 or groups.max() >= self.count:
            raise UnsupportedCheckpoint(f"{self.path} has groups of columns that are none; download the file again")
        return groups

    def read(self) -> np.ndarray:
        groups = self.of_columns()
        numbers, zeros = self.numbers().astype(np.float32), self.zero_points().astype(np.float32)
        return np.asarray((numbers - zeros[:, groups]) * self.multipliers()[:, groups])

    def quantized(self) -> Quantized | None:
        """The matrix, exactly; None if groups are not of neighbours, or of an unsupported size."""
        block, zeros = self.shape[1] // self.count, self.zero_points()
        if self.apart or block % LEAST:
            return None
        scales, numbers = np.ascontiguousarray(self.multipliers()), np.ascontiguousarray(self.numbers())
        middle = np.uint8(1 << self.bits - 1)
        even = bool((zeros == middle).all())
        if self.bits == 4:
            held = numbers[:, ::2] | numbers[:, 1::2] << 4
            return Quantized(held, scales, 4, block, None if even else np.ascontiguousarray(zeros))
        numbers, zeros = (numbers ^ middle).view(np.int8), np.ascontiguousarray(zeros ^ middle).view(np.int8)
        return Quantized(numbers, scales, 8, block, None if even else zeros)


def unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """Unpack 32-bit words, the lowest bits first."""
    held = np.ascontiguousarray(words).view(np.uint8)
    return held if bits == 8 else np.stack([held & 15, held >> 4], axis=-1).reshape(len(held), -1)


def ordered(numbers: np.ndarray) -> np.ndarray:
    """Undo AWQ's order of neighbours."""
    return numbers.reshape(len(numbers), -1, 8)[..., ORDER].reshape(len(numbers), -1)


def suited(bits: int, group: int, *, columns: int, asymmetric: bool, apart: bool) -> tuple[str, str, str]:
    """What a matrix of so many columns tells, of which each `group` has a scale."""
    if apart:
        return APART, REASON_APART.format(bits=bits), ""
    for name, known in PRECISIONS.items():
        alike = (known.bits, known.block or columns, known.format) == (bits, group, "")
        if alike and ("-asym" in name) == asymmetric:
            return name, REASON.format(bits=bits, group=group or "a row"), name
    return "", "", ""


def foreseen(quantization: Mapping[str, Any]) -> tuple[str, str, str]:
    """What matrices will tell, as far as config.json says: of rows with one scale, not how many columns they have."""
    said = scheme(quantization)
    size = said.get("group_size")
    group = size if isinstance(size, int) and size > 0 else 0
    asymmetric, apart = not said.get("symmetric", said.get("sym")), bool(said.get("desc_act"))
    return suited(said["bits"], group, columns=0, asymmetric=asymmetric, apart=apart)


def scheme(quantization: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of packed numbers, `bits` included; by compressed-tensors of the first group of matrices."""
    groups = quantization.get("config_groups") or {}
    weights: Mapping[str, Any] = next((group["weights"] for group in groups.values()), {})
    return {"bits": weights.get("num_bits", 4), **quantization, **weights}


def join(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:  # Any: config.json's
    """Join the tensors of each packed matrix."""
    found = dict(tensors)
    quantization = config.get("quantization_config") or {}
    method: Any = quantization.get("quant_method")
    if method not in NAMES:
        return found
    ends = NAMES[method]
    for name, words in tensors.items():
        stem, _, end = name.rpartition(".")
        if end != ends[0] or words.dtype != np.int32:
            continue
        del found[name]
        scales, zeros, groups = (found.pop(f"{stem}.{each}", None) for each in ends[1:])
        shape, bits = sizes(words, found.pop(f"{stem}.{SHAPE}", None), quantization)
        if scales is None or not shape:
            says = f"the tensor {name} {words.shape} is not of matrices as config.json says, or {ends[1]} is missing"
            raise UnsupportedCheckpoint(f"{says}; download it again")
        found[f"{stem}.weight"] = one = PackedTensor(
            *(words.path, words.modified, words.start, np.dtype(np.float32), shape),
            method=method,
            bits=bits,
            asymmetric=zeros is not None and not quantization.get("sym", False),
            lift=int(method == "gptq" and quantization.get("checkpoint_format") != "gptq_v2"),
            words=words,
            scales=scales,
            zeros=zeros,
            groups=groups,
        )
        if not fits(one):
            told = ", ".join(f"{each.shape}" for each in (words, scales, zeros, groups) if each)
            raise UnsupportedCheckpoint(f"the tensors of {stem} do not fit each other: {told}; download them again")
    return found


def sizes(words: Tensor, shape: Tensor | None, quantization: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
    """A packed matrix's rows and columns, and bits per number; () if they are impossible."""
    if len(words.shape) != 2:
        return (), 0
    if shape is not None and shape.shape == (2,) and shape.dtype.kind == "i":
        rows, columns = shape.read().tolist()
        return (rows, columns), 4 if words.shape == (rows, -(-columns // 8)) else 8
    bits = quantization.get("bits", 0)
    if bits not in (4, 8):
        return (), 0
    first, last = words.shape
    of_method = {"gptq": (last, first * 32 // bits), "awq": (last * 32 // bits, first)}
    return of_method.get(quantization["quant_method"], ()), bits


def fits(one: PackedTensor) -> bool:
    """Whether a packed matrix's tensors have matching shapes."""
    if not min(one.shape) > 0 or one.scales.dtype.kind in "iu" or not one.scales.size:
        return False
    (rows, columns), each = one.shape, 32 // one.bits
    words, scales, zeros = (rows, -(-columns // each)), (rows, one.count), (-(-rows // each), one.count)
    if one.method != "compressed-tensors":
        words, scales, zeros = words[::-1], scales[::-1], zeros[::-1]
    if one.method == "awq":
        words = columns, -(-rows // each)
    parts = (one.words, words), (one.zeros, zeros), (one.groups, (columns,))
    whole = all(part.dtype == np.int32 and part.shape == shape for part, shape in parts if part)
    return whole and one.scales.shape == scales and not columns % one.count
