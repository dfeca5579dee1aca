"""Estimate whether a model fits this machine, before its weights are downloaded."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from backends import quantize
from backends.decoder import Decoder, MatrixState, SelectiveState
from backends.memory import memory as memory
from model_store.checkpoint.checkpoint import DTYPES, HEADER_LIMIT, ROUNDED, span
from model_store.errors import UnsupportedCheckpoint

HEADER_START = 1 << 16
"""Bytes of a weights file that are read first: most headers end there."""
CONVERSATION = 4096
"""Tokens of context assumed when estimating memory."""
BESIDE = re.compile(
    r"([._]scales?(_2|_inv)?|qzeros|zero_point|g_idx|_shape|SCB|absmax|quant_map|bitsandbytes__\w+|weight_format)$"
)
"""Endings of the names of tensors that belong to rounded weights."""
RUNTIME = 200_000_000
"""Bytes that Python and a backend take in addition to the model."""


@dataclass(frozen=True)
class Weights:
    """What is known of a checkpoint's weights before they are downloaded."""

    parameters: int
    bits: float
    """Bits per weight in the checkpoint, scales included."""


def read_header(name: str, size: int, start: Callable[[int], bytes], *, packed_bits: int = 4) -> Weights:
    """Read the weights' number and bits from a safetensors file's header; `start` returns its first bytes.

    The offsets in its header must fit `size`. `packed_bits` is the width of numbers packed into words of 32 bits.
    """
    found = start(HEADER_START)
    length = int.from_bytes(found[:8], "little")
    if not 2 <= length <= min(size - 8, HEADER_LIMIT):
        raise UnsupportedCheckpoint(f"{name} has {size:,} bytes, and its header would have {length:,}")
    header = (found if 8 + length <= len(found) else start(8 + length))[8 : 8 + length]
    try:
        entries: dict[str, Any] = json.loads(header)  # Any: parsed JSON
        entries.pop("__metadata__", None)
        spans = [span(tensor, entry) for tensor, entry in entries.items()]
        count = sum(count_weights(tensor, entries, packed_bits) for tensor in entries)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnsupportedCheckpoint(f"the header of {name} cannot be read ({error})") from error
    ends = [stop for begin, stop, expected in spans if stop - begin == expected]
    if len(ends) < len(spans) or max(ends, default=0) + 8 + len(header) != size:
        raise UnsupportedCheckpoint(f"{name} has {size:,} bytes, and its header describes others")
    return Weights(count, 8 * (size - 8 - length) / max(1, count))


def count_weights(tensor: str, entries: dict[str, Any], packed_bits: int) -> int:
    """The estimated number of weights in a tensor, which may be packed."""
    dtype, count = str(entries[tensor]["dtype"]), int(prod(entries[tensor]["shape"]))
    if BESIDE.search(tensor) or dtype not in DTYPES | ROUNDED or dtype == "I64":
        return 0
    if dtype == "I32":
        return 32 // packed_bits * count
    if dtype == "U8":
        nibbles = tensor.endswith(("_blocks", "_packed")) or {tensor + ".absmax", tensor + "_scale_2"} & set(entries)
        return count * (2 if nibbles else 4)  # four values in a byte, as BitNet packs them
    return count


def lowered_size(parameters: int, precision: str) -> int:
    """The estimated bytes of that many weights at a precision."""
    to = quantize.precision(precision)
    block = to.block or 1024  # a whole row
    return int(parameters * (to.bits if to.bits == 32 else to.bits + 32 / block) / 8)


def memory_needed(weights: int, cache: int) -> int:
    """Bytes of memory to run: weights, cache, runtime."""
    return weights + cache + RUNTIME


def cache_size(decoder: Decoder) -> int:
    """Bytes of the keys, values and states of a conversation."""
    layers = [one for _, one in decoder.cached_layers] + [*decoder.encoder]
    per_token = sum(2 * 4 * one.kv_heads * one.head_dim for one in layers)
    states = (one.recurrence for one in decoder.layers if isinstance(one.recurrence, MatrixState | SelectiveState))
    return per_token * min(decoder.context_length, CONVERSATION) + sum(4 * one.elements for one in states)
