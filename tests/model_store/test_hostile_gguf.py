"""GGUF files made to do harm, or cut off: refused by name, without memory or time, and nothing is written."""

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from model_store import Store, UnsupportedCheckpoint
from model_store.checkpoint.weights import Canonical
from model_store.gguf import open_gguf
from model_store.gguf.reader import read_header
from support import gguf_conversion
from support.gguf_conversion import converted
from support.gguf_files import F32, KEYS, gguf, text, value, vocabulary

GOLDEN = Path(__file__).parents[1] / "golden"
HUGE = 1 << 62


def header(tensors: int = 0, keys: int = 0, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


def entry(name: str, shape: tuple[int, ...], offset: int, kind: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 32)


HEADERS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes long"),
    "another format": (b"PK\3\4" + bytes(100), "begins with b'PK"),
    "the first version": (header(version=1), "has the version 1"),
    "another byte order": (header(version=3 << 24), "big-endian"),
    "more tensors than bytes": (header(tensors=HUGE) + bytes(99), "4,611,686,018,427,387,904 tensors"),
    "more keys than bytes": (header(keys=HUGE) + bytes(99), "keys and 0 tensors"),
    "a negative count": (header(keys=(1 << 64) - 1) + bytes(99), "18,446,744,073,709,551,615 keys"),
    "a string longer than the file": (header(keys=1, body=struct.pack("<Q", HUGE) + bytes(99)), "needs 4,611,686,018"),
    "a string of size -1": (header(keys=1, body=b"\xff" * 8 + bytes(99)), "needs 18,446,744,073,709,551,615"),
    "a key that is no text": (header(keys=1, body=struct.pack("<Q", 2) + b"\xff\xfe" + bytes(99)), "not UTF-8"),
    "a key without a name": (header(keys=1, body=text("") + bytes(99)), "a key is called ''"),
    "control characters": (header(keys=1, body=text("a\x1b[2J") + bytes(99)), "a key is called"),
    "a key there twice": (header(keys=2, body=(text("a") + value(1)) * 2 + bytes(99)), "the key a is there twice"),
    "an unknown type": (header(keys=1, body=text("a") + struct.pack("<I", 77) + bytes(99)), "unknown type 77"),
    "a list longer than the file": (
        header(keys=1, body=text("a") + struct.pack("<IIQ", 9, 8, HUGE) + bytes(99)),
        "a with 4,611,686,018,427,387,904 strings",
    ),
    "numbers beyond the file": (
        header(keys=1, body=text("a") + struct.pack("<IIQ", 9, 12, 1 << 61) + bytes(99)),
        "needs 18,446,744,073,709,551,616 bytes",
    ),
    "lists within lists": (
        header(keys=1, body=text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(99)),
        "an array of the type 9",
    ),
    "an alignment of 0": (header(keys=1, body=text("general.alignment") + value(0) + bytes(99)), "of 0 is none"),
    "an alignment of 48": (header(keys=1, body=text("general.alignment") + value(48) + bytes(99)), "of 48 is none"),
    "a tensor there twice": (
        padded(header(tensors=2, body=entry("a", (32,), 0) + entry("a", (32,), 128))) + bytes(256),
        "the tensor a is there twice",
    ),
    "tensors that overlap": (
        padded(header(tensors=2, body=entry("a", (32,), 0) + entry("b", (32,), 64))) + bytes(256),
        "b should begin at byte 128 of the data and has the offset 64",
    ),
    "an offset outside": (
        padded(header(tensors=1, body=entry("a", (32,), 1 << 40))) + bytes(256),
        "a should begin at byte 0 of the data",
    ),
    "an offset of -1": (
        padded(header(tensors=1, body=entry("a", (32,), (1 << 64) - 1))) + bytes(256),
        "has the offset 18,446,744,073,709,551,615",
    ),
    "a size beyond the file": (
        padded(header(tensors=1, body=entry("a", (1 << 40, 1 << 20), 0))) + bytes(256),
        "a should end at byte",
    ),
    "a size that wraps around": (
        padded(header(tensors=1, body=entry("a", (1 << 32, 1 << 30, 4), 0))) + bytes(256),
        "a should end at byte",
    ),
    "no dimensions": (header(tensors=1, body=entry("a", (), 0) + bytes(99)), "a has 0 dimensions"),
    "many dimensions": (header(tensors=1, body=text("a") + struct.pack("<I", 1 << 31) + bytes(99)), "dimensions"),
    "an empty dimension": (header(tensors=1, body=entry("a", (0, 8), 0) + bytes(99)), r"the shape \(0, 8\)"),
    "half a block": (header(tensors=1, body=entry("a", (2, 48), 0, 8) + bytes(99)), "its type Q8_0 cannot have"),
    "a type that is not read": (header(tensors=1, body=entry("a", (256,), 0, 41) + bytes(99)), "type Q1_0"),
    "a type that is none": (header(tensors=1, body=entry("a", (256,), 0, 4040) + bytes(99)), "type number 4040"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    content, message = HEADERS[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(UnsupportedCheckpoint, match=message):
        read_header(path)


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    content = converted(GOLDEN / "llama")
    path = tmp_path / "model.gguf"
    for size in [*range(0, 4000, 61), *range(4000, len(content) - 32, 9973)]:
        path.write_bytes(content[:size])
        with pytest.raises(UnsupportedCheckpoint):
            open_gguf(path)


def test_of_a_file_with_any_byte_changed_nothing_but_a_refusal_comes(tmp_path: Path) -> None:
    content = converted(GOLDEN / "llama")
    path = tmp_path / "model.gguf"
    refused = 0
    for place in range(0, 3000, 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            open_gguf(path)
        except UnsupportedCheckpoint:
            refused += 1
    assert refused > 100  # the others changed a name, or a number that may be so


def changed(**keys: object) -> Callable[[], bytes]:
    def make() -> bytes:
        metadata: dict[str, object] = {**KEYS, **vocabulary(96)}
        metadata |= {key.replace("__", "."): found for key, found in keys.items()}
        metadata = {key: found for key, found in metadata.items() if found is not None}
        return gguf(metadata, {"token_embd.weight": (0, (96, 32), bytes(96 * 128)), "output_norm.weight": F32})

    return make


MODELS: dict[str, tuple[Callable[[], bytes], str]] = {
    "no architecture": (changed(general__architecture=None), "of the architecture None are not supported"),
    "an unknown one": (changed(general__architecture="lama"), "did its maker mean llama"),
    "experts": (changed(llama__expert_count=8), "it has experts, and does not tell their size"),
    "a missing key": (changed(llama__block_count=None), "the key llama.block_count is missing"),
    "billions of layers": (changed(llama__block_count=1 << 31), "too much for num_hidden_layers"),
    "an endless context": (changed(llama__context_length=1 << 31), "too much for max_position_embeddings"),
    "a wide head": (changed(llama__attention__key_length=1 << 30), "too much for head_dim"),
    "no heads": (changed(llama__attention__head_count=0), "zero"),
    "a size of another type": (changed(llama__embedding_length="32"), "llama.embedding_length should be a number"),
    "layers that differ": (changed(llama__attention__head_count_kv=[1, 2]), "differs from layer to layer"),
    "no number": (changed(llama__rope__freq_base=float("nan")), "llama.rope.freq_base should be a number"),
    "another rotation": (changed(llama__rope__scaling__type="spiral", llama__rope__scaling__factor=2.0), "'spiral'"),
    "a part of a model": (changed(split__count=3), "is one of 3 parts of a model"),
    "an adapter": (changed(general__type="adapter"), "is an adapter"),
    "an image encoder": (changed(general__type="mmproj"), "is an image encoder"),
    "tensors that lack": (changed(), "lacks the tensor blk.0.attn_norm.weight"),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_be_is_refused_and_nothing_is_kept(case: str, tmp_path: Path) -> None:
    make, message = MODELS[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(make())
    store = Store(tmp_path / "store")
    with pytest.raises(UnsupportedCheckpoint, match=message):
        store.get(str(path))
    assert not list((tmp_path / "store").rglob("*.json"))


def test_numbers_that_are_none_are_refused_by_the_tensors_name(tmp_path: Path) -> None:
    content = (GOLDEN.parent / "golden_gguf" / "qwen2-q8_0.gguf").read_bytes()
    path = tmp_path / "model.gguf"
    start = read_header(GOLDEN.parent / "golden_gguf" / "qwen2-q8_0.gguf").entries["blk.0.attn_output.weight"].start
    path.write_bytes(content[:start] + b"\x00\x7e" + content[start + 2 :])
    store = Store(tmp_path / "store")
    model = store.get(str(path))
    for precision in ("int8-32", "f32"):
        with pytest.raises(UnsupportedCheckpoint, match="blk.0.attn_output.weight holds NaN or infinite"):
            store.lowered(model, "onnx", precision)


OF_NEW_KINDS: list[tuple[str, str, object, str]] = [
    ("apertus", "xielu.alpha_p", [1.0], r"lacks the tensor blk\.0\.xielu"),
    ("apertus", "xielu.alpha_p", [float("nan"), 1.0], r"blk\.0\.xielu holds NaN"),
    ("olmo3", "olmo2.attention.sliding_window_pattern", [1, 0], "layer_types names 2 layers, there are 4"),
    ("olmo", "olmo.attention.clamp_kqv", -3.0, "clip_qkv .* not below 0"),
    ("mpt", "mpt.attention.max_alibi_bias", 0.0, "alibi_bias_max .* should be a number"),
    ("ministral3", "mistral3.rope.scaling.yarn_beta_fast", -1.0, "beta_fast .* above 0"),
]


@pytest.mark.parametrize(("case", "key", "wrong", "reason"), OF_NEW_KINDS)
def test_a_key_that_cannot_be_is_refused_by_its_name(
    case: str, key: str, wrong: object, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_conversion, "gguf", lambda keys, tensors: gguf({**keys, key: wrong}, tensors))
    path = tmp_path / "model.gguf"
    path.write_bytes(converted(GOLDEN / case))
    with pytest.raises(UnsupportedCheckpoint, match=reason):
        dict(Canonical(*open_gguf(path)))


def test_millions_of_empty_strings_are_refused_at_once(tmp_path: Path) -> None:
    path, count = tmp_path / "many.gguf", 12_000_000
    with path.open("wb") as file:
        file.write(header(keys=1, body=text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, count)))
        file.truncate(file.tell() + 8 * count)
    tracemalloc.start()
    try:
        with pytest.raises(
            UnsupportedCheckpoint, match=r"tokenizer\.ggml\.tokens has 12,000,000 strings, and no vocabulary"
        ):
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
