"""Write GGUF files: any header, and tensors in some of their formats."""

import struct
from collections.abc import Mapping

import numpy as np

ALIGNMENT = 32
Tensors = Mapping[str, tuple[int, tuple[int, ...], bytes]]
"""Type, shape and bytes by name."""


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(found: object) -> bytes:
    """A key's value with its type before it."""
    match found:
        case bool():
            return struct.pack("<I?", 7, found)
        case int():
            return struct.pack("<II", 4, found)
        case float():
            return struct.pack("<If", 6, found)
        case str():
            return struct.pack("<I", 8) + text(found)
        case [] | [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(found)) + b"".join(text(str(one)) for one in found)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(found)}f", 9, 6, len(found), *found)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(found)}i", 9, 5, len(found), *found)
    raise TypeError(found)


def gguf(metadata: Mapping[str, object], tensors: Tensors) -> bytes:
    """The content of a GGUF file."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(text(key) + value(found) for key, found in metadata.items())
    data = b""
    for name, (kind, shape, content) in tensors.items():
        header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, len(data))
        data += content + b"\0" * (-len(content) % ALIGNMENT)
    return header + b"\0" * (-len(header) % ALIGNMENT) + data


def floats(tensors: Mapping[str, np.ndarray]) -> Tensors:
    """The tensors in float32."""
    return {name: (0, one.shape, np.asarray(one, np.float32).tobytes()) for name, one in tensors.items()}


def q8_0(values: np.ndarray) -> tuple[int, tuple[int, ...], bytes]:
    """A tensor in blocks of 32 bytes and a scale."""
    blocks = np.asarray(values, np.float32).reshape(-1, 32)
    scales = np.abs(blocks).max(1, keepdims=True) / 127
    numbers = np.rint(blocks / scales).astype(np.int8)
    return 8, values.shape, np.concatenate([scales.astype(np.float16).view(np.int8), numbers], axis=1).tobytes()


def mxfp4(values: np.ndarray) -> tuple[int, tuple[int, ...], bytes]:
    """A tensor whose numbers are those of mxfp4, in blocks of an exponent and nibbles, the first half low."""
    blocks = np.asarray(values, np.float32).reshape(-1, 32)
    exponents = np.frexp(np.abs(blocks).max(1))[1] - 4
    units = np.ldexp(blocks, -exponents[:, None])
    codes = np.searchsorted([0, 1, 2, 3, 4, 6, 8, 12], np.abs(units)).astype(np.uint8) | (units < 0) * np.uint8(8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    scales = (exponents + 128).astype(np.uint8)[:, None]
    return 39, values.shape, np.concatenate([scales, packed], axis=1).tobytes()


def vocabulary(count: int) -> dict[str, object]:
    """A vocabulary of letters and more, for a tokenizer of bytes."""
    tokens = [*map(chr, range(33, 127)), "Ġ", *(f"<{place}>" for place in range(count - 96)), "<|endoftext|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (count - 1) + [3],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": count - 1,
        "tokenizer.ggml.bos_token_id": count - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


KEYS: dict[str, object] = {
    "general.architecture": "llama",
    "llama.context_length": 16,
    "llama.embedding_length": 32,
    "llama.block_count": 1,
    "llama.attention.head_count": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}


F32 = 0, (1, 32), bytes(128)
