"""Whether a model fits this machine, about: before its weights are fetched."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from backends import quantize
from backends.decoder import Decoder, MatrixState, SelectiveState
from backends.memory import memory as memory
from model_store.checkpoint.checkpoint import BYTES, DTYPES, HEADER_LIMIT, span
from model_store.checkpoint.int8 import SCALE
from model_store.checkpoint.mxfp4 import KINDS
from model_store.errors import UnsupportedCheckpoint

HEADER_START = 1 << 16
"""Bytes of a weights file that are read at first: most headers end there."""
CONVERSATION = 4096
"""Tokens of context for which memory is reckoned."""
RUNTIME = 200_000_000
"""Bytes that Python and a backend take besides the model."""


@dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint, as far as they are known before they are here."""

    parameters: int
    bits: float
    """Of each in the checkpoint, scales of rounded ones included."""


def read_header(name: str, size: int, start: Callable[[int], bytes]) -> Weights:
    """The weights of a safetensors file of so many bytes, of which `start` gives as many of the first as it is asked.

    The offsets in its header must fit.
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
        count = sum(count_weights(tensor, entry["dtype"], prod(entry["shape"])) for tensor, entry in entries.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnsupportedCheckpoint(f"the header of {name} cannot be read ({error})") from error
    ends = [stop for begin, stop, expected in spans if stop - begin == expected]
    if len(ends) < len(spans) or max(ends, default=0) + 8 + len(header) != size:
        raise UnsupportedCheckpoint(f"{name} has {size:,} bytes, and its header describes others")
    return Weights(count, 8 * (size - 8 - length) / max(1, count))


def count_weights(tensor: str, dtype: str, elements: int) -> int:
    """How many weights a tensor of a checkpoint holds; of the rounded ones, bytes may hold several."""
    if tensor.endswith((SCALE, KINDS[1])):
        return 0
    if dtype == "U8":
        return elements * (2 if tensor.endswith(KINDS[0]) else 4)  # mxfp4; BitNet
    return elements if dtype in DTYPES or dtype in BYTES else 0


def lowered_size(parameters: int, precision: str) -> int:
    """Bytes that so many weights take at a precision, about."""
    to = quantize.precision(precision)
    block = to.block or 1024  # a row
    return int(parameters * (to.bits if to.bits == 32 else to.bits + 32 / block) / 8)


def memory_needed(weights: int, cache: int) -> int:
    """Bytes of memory to run: weights, keys and values, the runtime."""
    return weights + cache + RUNTIME


def cache_size(decoder: Decoder) -> int:
    """Bytes of the keys and values of a conversation, and of states."""
    layers = [one for _, one in decoder.caches] + [*decoder.encoder]
    per_token = sum(2 * 4 * one.kv_heads * one.head_dim for one in layers)
    states = (one.recurrence for one in decoder.layers if isinstance(one.recurrence, MatrixState | SelectiveState))
    return per_token * min(decoder.context_length, CONVERSATION) + sum(4 * one.elements for one in states)
