"""GGUF files are pulled by their quantisation, known by their header before, and run as imported copies do."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import backends
from model_store import Store, StoreError, UnsupportedCheckpoint
from model_store.gguf import open_gguf
from model_store.gguf.preview import write_preview
from model_store.gguf.reader import read_header
from model_store.hub.catalog import refer
from model_store.hub.file_selection import gguf, ggufs
from model_store.hub.partial import Wanted
from model_store.hub.pull import Plan
from model_store.imports import carry_out
from model_store.imports import plan as plan_import
from model_store.upkeep import copies
from support.arrays import near
from support.checkpoints import GOLDEN, ROOT
from support.gguf_conversion import converted
from support.loopback_hub import LoopbackHub
from support.pulls import Pull, interrupted

OWN = ROOT / "tests" / "golden_gguf"
REPOSITORY = "org/tiny-GGUF"
NAME = "org--tiny-GGUF--Q4_K_M"


@pytest.fixture
def files(tmp_path: Path, loopback: LoopbackHub) -> Path:
    """The files of a repository that is published."""
    folder = tmp_path / "files"
    folder.mkdir()
    shutil.copy(OWN / "llama-q4_k_m.gguf", folder / "tiny-Q4_K_M.gguf")
    shutil.copy(OWN / "llama-q4_0.gguf", folder / "tiny.q4_0.gguf")
    (folder / "config.json").write_text("not the model")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Tiny\n\nIt is tiny.\n")
    loopback.publish(REPOSITORY, folder)
    return folder


def test_it_is_the_model_that_an_import_makes_and_runs(
    store: Store, files: Path, planned: Callable[..., Plan], pulling: Pull, loopback: LoopbackHub
) -> None:
    carry_out(store, plan_import(store, str(files / "tiny-Q4_K_M.gguf"), name="copied", copy=True))
    copied = store.get("copied")
    plan = planned(f"hf.co/{REPOSITORY}:q4_k_m")
    assert [file.name for file in plan.files] == ["README.md", "tiny-Q4_K_M.gguf"] and plan.graph == "tiny-Q4_K_M.gguf"
    assert plan.disk_needed > plan.size > copied.size and plan.memory_needed > 0 and plan.precision == copied.precision
    assert loopback.sent < 300_000
    target = pulling(f"{REPOSITORY}:Q4_K_M")
    found = store.get(f"hf.co/{REPOSITORY}:Q4_K_M")
    same = "family", "parameters", "context_length", "chats", "size", "own_precision", "own_precision_reason"
    for name in same:
        assert getattr(found, name) == getattr(copied, name) == getattr(plan.model, name), name
    assert (found.name, found.folder) == (NAME, target)
    assert (target / "tokenizer.json").read_bytes() == (copied.folder / "tokenizer.json").read_bytes()
    tokens = np.load(OWN / "llama-q4_k_m.npz")["tokens"].ravel()[None, :8]
    ours, theirs = (backends.get("onnx").load(store.lowered(m, "onnx").folder, device="cpu") for m in (found, copied))
    assert ours.forward(tokens, last=8) == near(theirs.forward(tokens, last=8), abs=0)
    copies.copy(store, NAME, "mine")
    store.remove(f"{REPOSITORY}:Q4_K_M")
    assert store.get("mine").parameters == found.parameters
    assert pulling(REPOSITORY) != target and store.get(REPOSITORY).size == copied.size


def test_an_interrupted_pull_goes_on(
    store: Store, files: Path, planned: Callable[..., Plan], pulling: Pull, loopback: LoopbackHub
) -> None:
    text = f"{REPOSITORY}:Q4_K_M@main"
    plan = planned(text)
    loopback.fault("Q4_K_M", stall=100_000, delay=60)
    interrupted(store, plan, at=90_000)
    with pytest.raises(StoreError, match=f"is partly downloaded; to continue: chatapp pull {text}$"):
        store.get(text)
    asked = len(loopback.requests)
    pulling(text)
    assert any(one.range and not one.range.startswith("bytes=0") for one in loopback.requests[asked:])
    assert store.get(text).name == f"{NAME}@main"


def test_a_file_that_cannot_run_is_refused_before_it_comes(
    store: Store, files: Path, planned: Callable[..., Plan], loopback: LoopbackHub
) -> None:
    content = (OWN / "llama-q4_0.gguf").read_bytes()
    faulty = {
        "tiny-Q5_0.gguf": (content.replace(b"\5\0\0\0\0\0\0\0llama", b"\5\0\0\0\0\0\0\0lhama"), "architecture 'lhama'"),
        "tiny-Q8_0.gguf": (content[:-100], "tiny-Q8_0.gguf of org/tiny-GGUF is damaged"),
    }
    for name, (bytes_of, _) in faulty.items():
        (files / name).write_bytes(bytes_of)
    loopback.publish(REPOSITORY, files)
    for name, (_, message) in faulty.items():
        with pytest.raises(UnsupportedCheckpoint, match=message):
            planned(f"{REPOSITORY}:{name[5:9]}")
    assert not store.root.exists()


def test_a_gated_repository_asks_for_its_terms(
    files: Path, planned: Callable[..., Plan], loopback: LoopbackHub
) -> None:
    loopback.gated.add(REPOSITORY)
    with pytest.raises(StoreError, match="is gated: accept its terms"):
        planned(f"{REPOSITORY}:Q4_K_M")


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        ("a-Q8_0 a-Q4_K_M", None, "a-Q4_K_M"),
        ("a-F16 a.q8_0 mmproj-F32", None, "a.q8_0"),
        ("mmproj-a-f16 imatrix odd", None, "odd"),
        ("a-UD-Q4_K_XL a-Q4_K_M", "UD-Q4_K_XL", "a-UD-Q4_K_XL"),
        ("a-Q4_0 b-Q4_0", "B-Q4_0", "b-Q4_0"),
        ("a-Q4_0 a-IQ3_M", "Q8_0", r"has no GGUF file of Q8_0; it has IQ3_M, Q4_0; .* chatapp pull org/x:Q4_0$"),
        ("a-IQ3_M a-Q2_K", None, r"no GGUF file of a usual quantisation; it has IQ3_M, Q2_K; .*org/x:IQ3_M$"),
        ("a-Q4_0 b-Q4_0", "Q4_0", r"several files of Q4_0 \(a-Q4_0.gguf, b-Q4_0.gguf\); .*pull org/x:a-Q4_0.gguf$"),
        (
            "a-Q8_0-00001-of-00002 a-Q4_0",
            "Q8_0",
            r"has Q8_0 only in parts or in a folder \(a-Q8_0-.*; it has Q4_0",
        ),
        ("mmproj-F16", "Q8_0", r"org/x has no GGUF file of Q8_0; see chatapp search$"),
        ("Q8_0/a-Q8_0-00001-of-00002", None, r"only in parts or in a folder \(Q8_0/a-Q8_0-.*chatapp import FILE$"),
    ],
)
def test_the_file_of_a_quantisation(names: str, asked: str | None, found: str) -> None:
    entries = {f"{name}.gguf": Wanted(f"{name}.gguf", 1, "0" * 40) for name in names.split()}
    if f"{found}.gguf" in entries:
        assert gguf(entries, "org/x", asked).name == f"{found}.gguf"
    else:
        with pytest.raises(StoreError, match=found):
            gguf(entries, "org/x", asked)
    assert not {"MMPROJ", "IMATRIX"} & set(ggufs(entries))


def test_names_with_a_quantisation() -> None:
    assert refer("https://huggingface.co/org/x-GGUF:q8_0@main") == refer("org/x-GGUF:Q8_0@main")
    assert refer("org/x:A-q8_0.gguf").name == "org--x--A-Q8_0"
    assert refer("Qwen/Qwen3-0.6B:Q8_0").name == "Qwen--Qwen3-0.6B--Q8_0" != refer("Qwen/Qwen3-0.6B").name


def test_a_long_header_is_read_on_and_so_are_the_tensors_of_the_configuration(tmp_path: Path) -> None:
    content, path, whole = converted(GOLDEN / "llama-tied_scaled"), tmp_path / "cut", tmp_path / "whole"
    whole.write_bytes(content)
    sizes: list[int] = []

    def read(start: int, size: int) -> bytes:
        sizes.append(size)
        return content[start : start + size]

    write_preview(path, len(content), read, 2000)
    assert sizes[:2] == [2000, 8000] and sum(sizes) < len(content) == path.stat().st_size
    assert open_gguf(path)[0].config == open_gguf(whole)[0].config and "rope_freqs.weight" in read_header(path).entries
