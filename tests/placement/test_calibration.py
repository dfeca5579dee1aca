"""Measuring in a child process: what it finds, and what becomes of children that crash, hang or refuse."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import backends
from backends import Placement
from chatapp.evaluation.timing import REPEATS, time_decode, time_prefill
from chatapp.placement import calibration
from chatapp.placement.calibration import calibrate, check
from chatapp.placement.record import Measurement
from model_store import Store
from model_store.models import LARGE
from support.checkpoints import ROOT, MakeCheckpoint
from support.patience import PATIENCE

DRILL = (sys.executable, "-m", "drills.calibration")
UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture
def model(store: Store, checkpoint: MakeCheckpoint) -> str:
    return store.get(str(checkpoint(max_position_embeddings=512))).name


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests' / 'offline'}:{ROOT}:{ROOT / 'tests'}")


def test_everything_is_measured_with_visible_progress(store: Store, model: str) -> None:
    steps: list[str] = []
    found = calibrate(
        store, model, Placement("onnx", "cpu", "int8"), on_progress=lambda step, share: steps.append(f"{step} {share}")
    )
    assert found.failure is None
    assert [length for length, _ in found.first_token] == [32, 256]
    assert 0 < found.p50 <= found.p95 < found.load + found.lowering
    assert found.first_token[0][1] > 0 and found.prefill_work > 0 and found.step_work > 0
    assert found.peak_memory > 10_000_000
    assert steps[0].startswith("trying onnx cpu int8: lowering")
    assert any("timing" in step for step in steps)
    assert found.verdict == "passed"
    assert calibrate(store, model, Placement("onnx", "cpu", "int8")).lowering == 0
    verdict = store.get(model).variants[0].verdicts["cpu"]
    assert verdict["passed"] and verdict["reference"] == "NumPy decoder"


def test_what_lies_where_the_user_is_does_not_run(
    store: Store, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert calibrate(store, model, Placement("onnx", "cpu", "f32")).failure is None


@UNIX
def test_a_ctrl_c_at_the_prompt_does_not_reach_a_process_that_measures(store: Store, model: str) -> None:
    command = (sys.executable, "-c", "import json, os; print(json.dumps({'failure': str(os.getpgrp())}))")
    group = calibrate(store, model, Placement("onnx", "cpu", "f32"), command=command).failure
    assert group and group.isdecimal() and int(group) != os.getpgrp()


def test_a_model_that_is_lowered_anew_each_time_is_not_taken_as_timed(store: Store, model: str) -> None:
    found = calibrate(store, model, Placement("restless", "cpu", "f32"), command=DRILL)
    assert found.failure == "another process keeps lowering the model"


def test_wrong_logits_are_found_and_never_chosen(store: Store, model: str) -> None:
    reference = store.root / model / "reference.npz"
    right = calibrate(store, model, Placement("onnx", "cpu", "f32"), reference=reference)
    assert right.verdict == "passed"
    assert reference.exists()
    wrong = calibrate(store, model, Placement("drill", "lies", "f32"), reference=reference, command=DRILL)
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
        ("exits", "it failed with exit code 3"),
        ("hangs", "it did not respond for 3 seconds"),
    ],
)
def test_what_goes_wrong_is_told_and_does_no_harm(store: Store, model: str, device: str, failure: str) -> None:
    placement = Placement("drill", device, "f32")
    found = calibrate(store, model, placement, command=DRILL, patience=3 if device == "hangs" else PATIENCE)
    assert found.placement == placement
    assert found.failure == failure


def test_what_a_runtime_prints_is_not_taken_for_a_result(store: Store, model: str) -> None:
    assert calibrate(store, model, Placement("drill", "prints", "f32"), command=DRILL).failure is None


def test_a_large_model_is_compared_in_part_and_not_again(store: Store, model: str) -> None:
    large, steps = replace(store.get(model), parameters=LARGE), []
    for _ in range(2):
        variant = store.lowered(large, "onnx", "int8")
        assert check(store, large, variant, "cpu", None, lambda step, share: steps.append(step))
    assert steps == ["comparing a part"] * 2  # at f32 and at int8, once


@pytest.mark.parametrize(("steps", "chosen"), [((2.0, 1.0), "f32"), ((2.0, 1.99), "bf16"), ((1.0, 2.0), "bf16")])
def test_a_decoder_is_computed_in_the_quickest_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[float, float], chosen: str
) -> None:
    loaded, told = [""], dict(zip(("bf16", "f32"), steps, strict=True))

    class Backend:
        @staticmethod
        def load(folder: Path, *, device: str) -> str:
            return loaded[-1]

    def time_session(found: Measurement, session: str, on_progress: object) -> Measurement:
        return replace(found, first_token=((256, 1.0),), p50=told[session])

    monkeypatch.setattr(backends, "get", lambda name: Backend)
    monkeypatch.setattr(backends, "list_types", lambda name, folder, device: list(told))
    monkeypatch.setattr(backends, "compute_in", lambda name, folder, kind: loaded.append(kind))
    monkeypatch.setattr(calibration, "time_session", time_session)
    found = calibration.time_types(Placement("openvino", "cpu", "int8"), tmp_path, lambda step, share: None)
    assert loaded[1:] == ["bf16", "f32", chosen] and found.p50 == told[chosen]


def test_what_is_slow_is_timed_fewer_times(store: Store, model: str) -> None:
    session = backends.get("onnx").load(store.lowered(store.get(model), "onnx", "f32").folder, device="cpu")
    assert time_prefill(session, 32, enough=0).reads == 1
    assert len(time_decode(session, 1, 48, enough=0).latencies) == 1
    assert time_prefill(session, 32).reads == REPEATS + 1 and len(time_decode(session, 1, 48).latencies) == 48
