"""Checkpoints are read strictly: what is damaged, missing or unknown is refused by name."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_store import StoreError, UnsupportedCheckpoint
from model_store.checkpoint.checkpoint import Checkpoint, tensors
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden llama."""
    return Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))


def canonical(folder: Path) -> Canonical:
    return Canonical(*open_checkpoint(folder))


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Change the tensors of the checkpoint in `folder`."""
    found = {name: np.array(values) for name, values in tensors(folder / "model.safetensors").items()}
    change(found)
    save_file(found, folder / "model.safetensors")


def configure(folder: Path, **fields: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **fields}))


def test_every_dtype_is_read_exactly(tmp_path: Path) -> None:
    values = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    written: dict[str, np.ndarray] = {
        "a": values,
        "b": values.astype(np.float16),
        "c": values.astype(ml_dtypes.bfloat16),
    }
    save_file({**written, "mask": np.ones(3, bool)}, tmp_path / "model.safetensors")
    read = tensors(tmp_path / "model.safetensors")
    assert read.keys() == written.keys()
    for name, expected in written.items():
        assert read[name].dtype == expected.dtype
        assert np.array_equal(read[name], expected)


def test_a_file_that_is_changed_or_vanishes_meanwhile_is_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    found = tensors(path)["model.norm.weight"]
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1000))
    with pytest.raises(StoreError, match=r"model\.safetensors was changed while it was read"):
        found.read()
    path.write_bytes(path.read_bytes()[:200])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(StoreError, match=r"model\.safetensors was changed while it was read"):
        found.read()
    path.unlink()
    with pytest.raises(StoreError, match=r"cannot read .*model\.safetensors: No such file"):
        found.read()


@pytest.mark.parametrize("size", [0, 7, 100, 5000, -2])
def test_a_truncated_file_is_refused_by_its_path(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UnsupportedCheckpoint, match=r"model\.safetensors is damaged or incomplete.*again"):
        Checkpoint(folder)


def test_a_tensor_that_is_cut_off_is_told_with_where_it_ends(folder: Path) -> None:
    path = folder / "model.safetensors"
    size = path.stat().st_size
    os.truncate(path, size - 2)
    with pytest.raises(UnsupportedCheckpoint, match=f"ends at byte {size} and the file has {size - 2};"):
        Checkpoint(folder)


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


HOSTILE: dict[str, dict[str, object]] = {
    "overlap": {"data_offsets": [0, 128]},
    "beyond the end": {"data_offsets": [1 << 40, (1 << 40) + 128]},
    "negative": {"data_offsets": [-128, 0]},
    "wrong size": {"shape": [65]},
    "enormous": {"shape": [1 << 62, 1 << 62]},
    "not numbers": {"shape": ["64"]},
    "unknown dtype": {"dtype": "X4"},
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_header_that_does_not_fit_the_file_is_refused(folder: Path, change: dict[str, object]) -> None:
    path = folder / "model.safetensors"
    header, body = header_of(path)
    header["model.norm.weight"] |= change
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    with pytest.raises(UnsupportedCheckpoint, match="damaged or incomplete"):
        Checkpoint(folder)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_header_or_config_that_is_no_json_object_is_refused(folder: Path, text: bytes) -> None:
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(text)
    with pytest.raises(UnsupportedCheckpoint, match=r"config\.json"):
        Checkpoint(folder)
    (folder / "config.json").write_bytes(config)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(UnsupportedCheckpoint, match=r"model\.safetensors"):
        Checkpoint(folder)


def test_shards_are_joined_and_a_missing_one_is_named(folder: Path) -> None:
    whole = {name: np.array(values) for name, values in Checkpoint(folder).tensors.items()}
    names = sorted(whole)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    (folder / "model.safetensors").unlink()
    for file, members in parts.items():
        save_file({name: whole[name] for name in members}, folder / file)
    weight_map = {name: file for file, members in parts.items() for name in members}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    joined = Checkpoint(folder).tensors
    assert joined.keys() == whole.keys()
    assert all(np.array_equal(joined[name], whole[name]) for name in names)
    shutil.copy(folder / "model-1.safetensors", folder / "model-2.safetensors")
    with pytest.raises(UnsupportedCheckpoint, match=r"lacks the tensor .*; download model-2\.safetensors again$"):
        canonical(folder)
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(UnsupportedCheckpoint, match=r"lacks 'model-2\.safetensors'"):
        Checkpoint(folder)


def test_a_link_to_weights_that_are_gone_is_refused_with_both_names(folder: Path) -> None:
    weights, gone = folder / "model.safetensors", folder / "gone"
    weights.unlink()
    weights.symlink_to(gone)
    with pytest.raises(UnsupportedCheckpoint, match=f"{weights} is a link to {gone}, which is gone; download it again"):
        canonical(folder)


def test_an_index_that_points_outside_the_folder_is_refused(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder.parent / "outside.safetensors")
    index = {"weight_map": {"x": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnsupportedCheckpoint, match="outside"):
        Checkpoint(folder)


def test_an_unclaimed_tensor_is_refused_by_name(folder: Path) -> None:
    rewrite(folder, lambda found: found.update({"model.layers.0.mlp.router.weight": np.ones(3, np.float32)}))
    with pytest.raises(UnsupportedCheckpoint, match=r"model\.layers\.0\.mlp\.router\.weight"):
        canonical(folder)


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "model.layers.1.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"]
)
def test_a_missing_tensor_is_refused_by_name(folder: Path, name: str) -> None:
    rewrite(folder, lambda found: found.pop(name))
    with pytest.raises(UnsupportedCheckpoint, match=name.removeprefix("model.").replace(".", r"\.")):
        canonical(folder)


@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.0.mlp.up_proj.bias", "lm_head.weight"])
def test_a_misnamed_tensor_is_refused_by_name(folder: Path, name: str) -> None:
    rewrite(folder, lambda found: found.update({name.replace(".", "_x.", 1): found.pop(name)}))
    with pytest.raises(UnsupportedCheckpoint, match=name.split(".")[-2]):
        canonical(folder)


def test_an_untied_head_that_is_missing_is_not_replaced_by_the_embedding(folder: Path) -> None:
    rewrite(folder, lambda found: found.pop("lm_head.weight"))
    with pytest.raises(UnsupportedCheckpoint, match=r"lm_head\.weight"):
        canonical(folder)
    configure(folder, tie_word_embeddings=True)
    assert canonical(folder)["lm_head"].name == "embedding"


def test_a_tensor_of_another_size_than_the_config_says_is_refused(folder: Path) -> None:
    configure(folder, vocab_size=97)
    with pytest.raises(UnsupportedCheckpoint, match=r"embed_tokens\.weight has shape \(96, 64\)"):
        canonical(folder)["embedding"]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (dict(num_attention_heads=None), r"num_attention_heads in config\.json is null, and should be a whole number"),
        (dict(num_key_value_heads=3), "cannot share"),
        (dict(vocab_size="96"), 'vocab_size in config.json is "96", and should be a whole number'),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(folder: Path, fields: dict[str, object], what: str) -> None:
    configure(folder, **fields)
    with pytest.raises(UnsupportedCheckpoint, match=what):
        open_checkpoint(folder)


def test_the_golden_files_are_what_safetensors_reads() -> None:
    path = GOLDEN / "gptj" / "model.safetensors"
    ours, theirs = tensors(path), load_file(path)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
