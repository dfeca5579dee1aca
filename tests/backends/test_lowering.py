"""Lowering takes little memory, whatever the size, and whatever ends it leaves nothing that looks whole."""

import json
import os
import signal
import subprocess
import sys
import threading
from math import prod
from pathlib import Path

import pytest

from model_store import Store, StoreError
from model_store.checkpoint.weights import Canonical
from model_store.convert import convert, expected_size, open_checkpoint
from model_store.location import Location
from model_store.locks import alone
from support.checkpoints import HERE, LLAMA, ROOT, VOCABULARY, MakeCheckpoint

ENDED = """
import os, sys
from pathlib import Path
from model_store import Store

def end(step: str, share: float) -> None:
    if share > 0.5:
        os.kill(os.getpid(), int(sys.argv[3]))

store = Store(Path(sys.argv[1]))
store.lowered(store.get(sys.argv[2]), "onnx", "int8", end)
"""
MEASURED = """
import sys
from pathlib import Path
import importlib
import backends, backends.quantize, model_store.families.llama
from model_store import Store

backends.get(sys.argv[4]).devices()
importlib.import_module(f"backends.{sys.argv[4]}.lowering")

def peak() -> int:
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

before = peak()
store = Store(Path(sys.argv[1]))
store.lowered(store.get(sys.argv[2]), sys.argv[4], sys.argv[3])
print(peak() - before)
"""


def python(script: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a script of this test."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT
    )


def left(store: Store, name: str = "tiny") -> list[str]:
    """What a model's folder holds beside its manifest."""
    return sorted(path.name for path in (store.root / name).iterdir() if path.name not in ("model.json", ".lock"))


def grown(folder: Path, **changed: int) -> Path:
    """Give the llama in `folder` other sizes, with weights that are zero and take no room on the disk."""
    config = {**LLAMA, **changed}
    hidden, ffn, layers = (int(str(config[name])) for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCABULARY, hidden), "model.norm": (hidden,)}
    for i in range(layers):
        layer = f"model.layers.{i}"
        shapes |= {f"{layer}.self_attn.{name}_proj": (hidden, hidden) for name in "qkvo"}
        shapes |= {f"{layer}.mlp.gate_proj": (ffn, hidden), f"{layer}.mlp.up_proj": (ffn, hidden)}
        shapes |= {f"{layer}.mlp.down_proj": (hidden, ffn)}
        shapes |= {f"{layer}.{name}": (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * prod(shape)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's own peak")
@pytest.mark.parametrize("precision", ["int4", "int8"])
@pytest.mark.parametrize("backend", HERE)
def test_lowering_holds_one_weight_at_a_time(
    store: Store, checkpoint: MakeCheckpoint, precision: str, backend: str
) -> None:
    sizes = dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=8, num_key_value_heads=4)
    folder = grown(checkpoint(), **sizes)
    done = python(MEASURED, store.root, folder, precision, backend)
    assert done.returncode == 0, done.stderr
    largest = 2 * 3072 * 768 * 2  # gate and up in one, of which there are two while they are joined
    assert int(done.stdout) < 4 * largest < (folder / "model.safetensors").stat().st_size / 3.5
    store.remove("tiny")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_an_interrupted_lowering_leaves_nothing(store: Store, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    done = python(ENDED, store.root, folder, int(signal.SIGINT))
    assert "KeyboardInterrupt" in done.stderr
    assert left(store) == [] and store.get("tiny").variants == ()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_what_a_killed_lowering_leaves_is_not_used_and_deleted_by_the_next(
    store: Store, checkpoint: MakeCheckpoint
) -> None:
    folder = checkpoint()
    done = python(ENDED, store.root, folder, int(signal.SIGKILL))
    assert done.returncode == -signal.SIGKILL
    assert [name.rstrip("_0123456789abcdefghijklmnopqrstuvwxyz") for name in left(store)] == [".unfinished-"]
    assert store.get("tiny").variants == ()
    store.lowered(store.get("builtin"), "onnx", "int8")
    assert left(store) == []
    assert store.lowered(store.get("tiny"), "onnx", "int8").seconds > 0


def test_a_folder_of_a_process_that_lives_is_kept(store: Store, checkpoint: MakeCheckpoint) -> None:
    store.get(str(checkpoint()))
    (store.root / "tiny" / ".unfinished-by-another").mkdir()
    with alone(Location(store.root, "tiny"), "working"):
        store.lowered(store.get("builtin"), "onnx", "int8")
        assert left(store) == [".unfinished-by-another"]


def test_a_variant_that_has_not_its_name_yet_is_not_listed(store: Store, checkpoint: MakeCheckpoint) -> None:
    variant = store.lowered(store.get(str(checkpoint())), "onnx", "int8")
    variant.folder.rename(variant.folder.with_name(".unfinished-nearly"))
    assert store.get("tiny").variants == ()


def test_a_variant_that_lost_bytes_is_made_again(store: Store, checkpoint: MakeCheckpoint) -> None:
    variant = store.lowered(store.get(str(checkpoint())), "onnx", "int8")
    with (variant.folder / "model.data").open("r+b") as file:
        file.truncate(1000)
    assert store.get("tiny").variants == ()
    assert store.lowered(store.get("tiny"), "onnx", "int8").size == variant.size


def test_who_lowers_the_same_waits_and_uses_it(store: Store, checkpoint: MakeCheckpoint) -> None:
    model = store.get(str(checkpoint()))
    told: list[str] = []
    waiting = threading.Event()

    def other_tells(step: str, share: float) -> None:
        told.append(step)
        waiting.set()

    other = threading.Thread(target=lambda: store.lowered(model, "onnx", "int8", other_tells))

    def meanwhile(step: str, share: float) -> None:
        if share > 0.5 and not waiting.is_set():
            other.start()
            waiting.wait()

    mine = store.lowered(model, "onnx", "int8", meanwhile)
    other.join()
    assert told and all(step.startswith(f"waiting for process {os.getpid()} on ") for step in told)
    assert any("lowering for onnx since" in step for step in told)
    assert left(store) == [mine.folder.name]


def test_progress_is_told_by_bytes(store: Store, checkpoint: MakeCheckpoint) -> None:
    told: list[float] = []
    folder = grown(checkpoint(), hidden_size=64, intermediate_size=4096, num_key_value_heads=4)
    store.lowered(store.get(str(folder)), "onnx", "int8", lambda step, share: told.append(share))
    assert told == sorted(told) and told[0] == 0 and told[-1] == 1
    ffn = 4096 * 64
    total = 2 * (3 * ffn + 4 * 64 * 64 + 2 * 64) + 64 + 2 * VOCABULARY * 64  # the tied table is read twice
    assert max(b - a for a, b in zip(told, told[1:], strict=False)) == pytest.approx(2 * ffn / total)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives the file its whole size on the disk")
def test_a_disk_without_room_is_refused_before_anything_is_written(store: Store, checkpoint: MakeCheckpoint) -> None:
    try:
        folder = grown(
            checkpoint(), hidden_size=8192, intermediate_size=1 << 20, num_hidden_layers=64, num_key_value_heads=4
        )
    except OSError:
        pytest.skip("this file system holds no file of three terabytes")
    with pytest.raises(StoreError, match=r"^[^/]+ needs about [\d.]+ GB at f32, and [\d.]+ GB are free .*CHATAPP_HOME"):
        store.lowered(store.get(str(folder)), "onnx", "f32")
    assert left(store) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_disk_that_becomes_full_is_told_with_numbers(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "model.data").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"No space left on device\): \d+ kB of about \d+ [kM]B were written; free"):
        convert(checkpoint(), target, backend="onnx", precision="int8")


@pytest.mark.parametrize("precision", ["f32", "int8", "int4", "int4-asym-32", "int8-asym", "mxfp4", "mx6"])
def test_the_expected_size_is_near(store: Store, checkpoint: MakeCheckpoint, precision: str) -> None:
    folder = grown(checkpoint(), hidden_size=512, intermediate_size=1024, num_key_value_heads=4)
    expected = expected_size(Canonical(*open_checkpoint(folder)), precision)
    data = store.lowered(store.get(str(folder)), "onnx", precision).folder / "model.data"
    rotations = 2 * 4096 * 64 * 4
    assert data.stat().st_size - rotations == pytest.approx(expected, rel=0.03)
