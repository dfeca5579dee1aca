"""Measuring in a child process: what it finds, and what becomes of children that crash, hang or refuse."""

import sys
from pathlib import Path

import pytest
from conftest import ROOT, MakeCheckpoint

from chatapp.calibration import Candidate, calibrate
from model_store import Store

DRILL = (sys.executable, str(ROOT / "tests" / "drill_calibration.py"))
UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def model(store: Store, checkpoint: MakeCheckpoint) -> str:
    return store.get(str(checkpoint(max_position_embeddings=512))).name


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests' / 'offline'}:{ROOT}")


def test_everything_is_measured_with_visible_progress(store: Store, model: str) -> None:
    steps: list[str] = []
    found = calibrate(
        store, model, Candidate("onnx", "cpu", "int8"), on_progress=lambda step, share: steps.append(f"{step} {share}")
    )
    assert found.failure is None
    assert [length for length, _ in found.first_token] == [32, 256]
    assert 0 < found.p50 <= found.p95 < found.load + found.lowering
    assert found.first_token[0][1] > 0 and found.prefill_work > 0 and found.step_work > 0
    assert found.peak_memory > 10_000_000
    assert steps[0].startswith("trying onnx cpu int8: lowering")
    assert any("timing" in step for step in steps)
    assert found.verdict == "passed"
    assert calibrate(store, model, Candidate("onnx", "cpu", "int8")).lowering == 0
    verdict = store.get(model).variants[0].verdicts["cpu"]
    assert verdict["passed"] and verdict["reference"] == "NumPy decoder"


def test_wrong_logits_are_found_and_never_chosen(store: Store, model: str) -> None:
    reference = store.root / model / "reference.npz"
    right = calibrate(store, model, Candidate("onnx", "cpu", "f32"), reference=reference)
    assert right.verdict == "passed"
    assert reference.exists()
    wrong = calibrate(store, model, Candidate("drill", "lies", "f32"), reference=reference, command=DRILL)
    assert (wrong.failure, wrong.verdict) == (None, "failed")
    verdicts = next(variant.verdicts for variant in store.get(model).variants if variant.backend == "drill")
    assert not verdicts["lies"]["passed"]
    assert any("max |Δ|" in failure for failure in verdicts["lies"]["failures"])


@UNIX
@pytest.mark.parametrize(
    ("device", "failure"),
    [
        ("refuses", "the driver is too old"),
        ("crashes", "it crashed (SIGSEGV): assertion failed in the driver"),
        ("exits", "it ended with exit code 3"),
        ("hangs", "it gave no sign of life for 3 seconds"),
    ],
)
def test_what_goes_wrong_is_told_and_does_no_harm(store: Store, model: str, device: str, failure: str) -> None:
    candidate = Candidate("drill", device, "f32")
    found = calibrate(store, model, candidate, command=DRILL, patience=3)
    assert found.candidate == candidate
    assert found.failure == failure


def test_what_a_runtime_prints_is_not_taken_for_a_result(store: Store, model: str) -> None:
    assert calibrate(store, model, Candidate("drill", "prints", "f32"), command=DRILL).failure is None
