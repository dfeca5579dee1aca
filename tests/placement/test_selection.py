"""Which way of running a model is chosen, and what is measured and remembered for that."""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

import backends
from backends import BackendError, Placement, Session
from chatapp.generation import turns
from chatapp.placement import measuring, opening, record, selection
from chatapp.placement.calibration import Stopped
from chatapp.placement.measuring import measure_all
from chatapp.placement.opening import open_engine
from chatapp.placement.record import Measurement
from chatapp.placement.selection import PlacementOptions, estimate_cost, rank
from model_store import Store, StoredModel
from support.checkpoints import MakeCheckpoint
from support.measured import ONNX

OTHER = replace(ONNX, placement=Placement("other", "npu", "int8"), first_token=((32, 0.1), (256, 0.8)), p50=0.006)


@pytest.fixture(autouse=True)
def two_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "NAMES", ("onnx", "other"))
    monkeypatch.setattr(selection, "order_backends", lambda: ["onnx", "other"])


def order(found: list[Measurement], objective: str) -> list[str]:
    return [one.placement.backend for one in rank(found, objective)]


def test_each_objective_has_its_own_best() -> None:
    assert estimate_cost(ONNX, "chat") == pytest.approx(0.1 + 128 * 0.010)
    assert estimate_cost(OTHER, "completion") == pytest.approx(0.8 / 4 + 16 * OTHER.step_of_many)
    assert order([ONNX, replace(OTHER, p50=0.002)], "chat") == ["other", "onnx"]
    assert order([ONNX, replace(OTHER, p50=0.002)], "completion") == ["onnx", "other"]
    slow_rows = replace(ONNX, step_of_many=0.2)
    assert order([slow_rows, OTHER], "completion") == ["other", "onnx"] != order([slow_rows, OTHER], "chat")
    assert estimate_cost(ONNX, "throughput") == pytest.approx(8 * 0.1 + 128 * 0.03)
    many = replace(OTHER, p50=0.02, first_token=ONNX.first_token, step_of_many=0.02)
    assert order([ONNX, many], "throughput") == ["other", "onnx"] != order([ONNX, many], "chat")
    assert order([ONNX, replace(OTHER, step_work=0.001)], "battery") == ["other", "onnx"]


def test_the_usual_one_wins_what_is_nearly_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    near = replace(ONNX, placement=OTHER.placement, p50=ONNX.p50 * 0.98)
    assert order([ONNX, near], "chat") == order([near, ONNX], "chat") == ["onnx", "other"]
    monkeypatch.setattr(selection, "order_backends", lambda: ["other", "onnx"])
    assert order([ONNX, near], "chat") == ["other", "onnx"]
    assert order([ONNX, replace(near, p50=ONNX.p50 * 1.1)], "chat") == ["onnx", "other"]


def test_what_failed_is_never_chosen() -> None:
    fastest = replace(OTHER, first_token=((256, 0.0001),), p50=0.0001, failure="its logits are wrong")
    assert order([fastest, ONNX], "chat") == ["onnx"]


def test_a_shorter_context_is_reckoned_up_to_the_objective_s_prompt() -> None:
    assert estimate_cost(replace(ONNX, first_token=((64, 0.02),)), "chat") == pytest.approx(0.08 + 128 * 0.010)


def test_as_many_answers_are_timed_as_are_computed_together() -> None:
    assert record.MANY == turns.AT_ONCE


class Calibrations:
    """Stands in for the child processes: results by backend and precision, and what was asked for."""

    def __init__(self, failing: Callable[[Placement], str | None] = lambda placement: None):
        self.failing, self.asked = failing, list[Placement]()

    def __call__(self, store: Store, model: str, placement: Placement, **rest: object) -> Measurement:
        self.asked.append(placement)
        return replace(ONNX, placement=placement, failure=self.failing(placement), lowering=0.5)


@pytest.fixture
def model(store: Store, checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch) -> StoredModel:
    real = backends.get("onnx")
    monkeypatch.setattr(backends, "get", lambda name: real)  # the other one has the same devices
    return store.get(str(checkpoint()))


def test_a_model_is_measured_once(store: Store, model: StoredModel) -> None:
    calibrate = Calibrations()
    found = measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert [str(one) for one in calibrate.asked] == ["onnx cpu int8", "other cpu int8"]
    again = measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert (again, len(calibrate.asked)) == (found, 2)
    measure_all(store, model, PlacementOptions(precision="f32"), calibrate=calibrate)
    assert [one.precision for one in calibrate.asked] == ["int8", "int8", "f32", "f32"]
    measure_all(store, model, PlacementOptions(), anew=True, calibrate=calibrate)
    assert len(calibrate.asked) == 6
    found = measure_all(store, model, PlacementOptions("other"), anew=True, calibrate=calibrate)
    assert [str(one.placement) for one in found] == ["other cpu int8"] and len(calibrate.asked) == 7
    measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert len(calibrate.asked) == 7


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"machine": {}}'])
def test_a_damaged_or_foreign_record_is_measured_anew(store: Store, model: StoredModel, damage: str) -> None:
    measure_all(store, model, PlacementOptions(), calibrate=Calibrations())
    (store.root / model.name / "calibration.json").write_text(damage)
    calibrate = Calibrations()
    measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert len(calibrate.asked) == 2


def test_a_record_in_the_words_of_the_first_versions_is_read(store: Store, model: StoredModel) -> None:
    found = measure_all(store, model, PlacementOptions(), calibrate=Calibrations())
    path = store.root / model.name / "calibration.json"
    path.write_text(path.read_text().replace('"placement"', '"candidate"'))
    calibrate = Calibrations()
    assert measure_all(store, model, PlacementOptions(), calibrate=calibrate) == found
    assert not calibrate.asked


def test_another_version_of_a_runtime_is_measured_anew(
    store: Store, model: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrate = Calibrations()
    measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    monkeypatch.setattr(record, "conditions", lambda: {"onnx": "onnxruntime 99"})
    measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert len(calibrate.asked) == 4


def test_where_the_usual_precision_fails_everywhere_a_finer_one_is_taken(store: Store, model: StoredModel) -> None:
    calibrate = Calibrations(lambda placement: None if placement.precision == "f32" else "its logits are wrong")
    found = measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert {one.placement.precision for one in found} == {"f32"}
    record = json.loads((store.root / model.name / "calibration.json").read_text())
    assert {one["placement"]["precision"] for one in record["measured"]} == {"int8", "int8-128", "f32"}
    assert list(dict.fromkeys(one.precision for one in calibrate.asked)) == ["int8", "int8-128", "f32"]


def test_what_fails_everywhere_is_tried_again_next_time(store: Store, model: StoredModel) -> None:
    calibrate = Calibrations(lambda placement: "the disk is full")
    for _ in range(2):
        found = measure_all(store, model, PlacementOptions(precision="int8"), calibrate=calibrate)
        assert [one.failure for one in found] == ["the disk is full"] * 2
    assert len(calibrate.asked) == 4


def test_a_device_that_is_not_there_is_refused(store: Store, model: StoredModel) -> None:
    with pytest.raises(BackendError, match="no backend has a device 'gpu'"):
        measure_all(store, model, PlacementOptions(device="gpu"), calibrate=Calibrations())
    with pytest.raises(BackendError, match="onnx has no device 'gpu' here; choose from cpu"):
        open_engine(store, model.name, PlacementOptions("onnx", "gpu"))


# What runs before anything was measured


def test_an_answer_waits_for_no_measurement(store: Store, model: StoredModel) -> None:
    def never(*given: object, **rest: object) -> Measurement:
        raise AssertionError("somebody waits")

    assert [str(way) for way in selection.rank_runnable(store, model, PlacementOptions())] == [
        "onnx cpu int8",
        "other cpu int8",
    ]
    engine = open_engine(store, model.name, PlacementOptions(), on_fallback=never)
    assert engine.placement.backend == "onnx"
    assert not (store.folder(model.name) / record.RECORD).exists()


def test_a_mixture_of_experts_runs_on_onnx_runtime_until_it_is_measured(
    model: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "order_backends", lambda: ["openvino", "coreml", "onnx"])
    monkeypatch.setattr(backends, "get", lambda name: SimpleNamespace(devices=lambda: ["cpu"]))

    def order(model: StoredModel) -> list[str]:
        return [one.backend for one in selection.list_suitable(model, "int4")]

    assert order(model) == ["openvino", "coreml", "onnx"]
    assert order(replace(model, family="qwen3_moe")) == ["onnx", "openvino", "coreml"]


def test_what_was_measured_comes_before_what_nobody_tried(store: Store, model: StoredModel) -> None:
    other = replace(OTHER, placement=Placement("other", "cpu", "int8"))
    record.add(store, model, [other])
    assert [way.backend for way in selection.rank_runnable(store, model, PlacementOptions())] == ["other", "onnx"]
    record.add(store, model, [replace(other, failure="its logits are wrong")])
    assert [way.backend for way in selection.rank_runnable(store, model, PlacementOptions())] == ["onnx"]
    assert [way.backend for way in measuring.list_unmeasured(store, model, PlacementOptions())] == ["onnx"]


def test_a_measurement_goes_on_where_it_was_stopped(store: Store, model: StoredModel) -> None:
    calibrate = Calibrations()

    def stopped_at_the_second(*given: object, **rest: object) -> Measurement:
        if calibrate.asked:
            raise Stopped
        return calibrate(store, model.name, Placement("onnx", "cpu", "int8"))

    with pytest.raises(Stopped):
        measure_all(store, model, PlacementOptions(), calibrate=stopped_at_the_second)
    measure_all(store, model, PlacementOptions(), calibrate=calibrate)
    assert [str(one) for one in calibrate.asked] == ["onnx cpu int8", "other cpu int8"]
    assert measuring.list_unmeasured(store, model, PlacementOptions()) == []


def test_what_fails_when_it_is_first_used_gives_way_and_is_not_tried_again(
    store: Store, checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, told = backends.get("onnx"), list[str]()
    model = store.get(str(checkpoint()))

    class Broken:
        """A backend whose sessions cannot be loaded."""

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def load(self, *given: object, **rest: object) -> None:
            raise BackendError("no such instruction")

    monkeypatch.setattr(backends, "get", lambda name: Broken() if name == "onnx" else real)
    for _ in range(2):
        assert open_engine(store, model.name, PlacementOptions(), on_fallback=told.append).placement.device == "cpu"
    assert told == ["no such instruction; trying the next best"]
    assert [way.backend for way in selection.rank_runnable(store, model, PlacementOptions())] == ["other"]


def test_what_ended_the_program_twice_is_not_chosen_again(store: Store, model: StoredModel) -> None:
    class Death(BaseException):
        """Of the process, which runs no more of ours."""

    def dies() -> Session:
        note.rename(kept)  # what a dead process leaves
        raise Death

    note, kept = store.folder(model.name) / record.FIRST_USE, store.root / "kept"
    onnx = Placement("onnx", "cpu", "int8")
    for backend in ("onnx", "onnx", "other"):
        assert selection.rank_runnable(store, model, PlacementOptions())[0].backend == backend
        with pytest.raises(Death):
            opening.use_first(store, model, onnx, dies)
        kept.rename(note)
    measure_all(store, model, PlacementOptions(), anew=True, calibrate=Calibrations())
    assert selection.rank_runnable(store, model, PlacementOptions())[0] == onnx
