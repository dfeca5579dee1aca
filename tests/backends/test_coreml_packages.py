"""Core ML packages off the Mac: what they hold, what breaks their rules, and which are tried and chosen."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backends
from backends import BackendError, coreml
from backends.coreml import choice, device, lowering, report, trial
from backends.coreml.contract import DATA, specification_of
from backends.coreml.inputs import Package, Policy
from backends.coreml.packages import ALL, WEIGHTS, contents, lower, present
from backends.coreml.stored import Stored, rounded_constants
from backends.coreml.structure import check
from backends.coreml.tools import Model_pb2, coremltools
from backends.reference import Session as ReferenceSession
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.coreml_cases import (
    CHUNK,
    CLOSE,
    EXACT,
    SLICE,
    Lowered,
    distance,
    interpreted,
    open_case,
    reference,
    tokens_of,
)
from support.coreml_interpreter import Interpreter


class TestPackages:
    def test_functions_share_weights_and_so_do_packages(self, lowered: Lowered) -> None:
        folder = lowered("gpt2", packages=ALL)
        twins = [folder / f"{package}.mlpackage" / WEIGHTS for package in ALL]
        assert all(path.samefile(twins[0]) for path in twins)
        decoder, weights = open_case("gpt2")
        matrices = sum(np.asarray(weights[name].values).size for name in weights if name != "position_embedding")
        matrices -= decoder.hidden_size * decoder.vocab_size  # the head is the embedding
        assert twins[0].stat().st_size < 2.6 * matrices

    def test_the_head_is_cut_where_the_neural_engine_wants_it(self, tmp_path: Path) -> None:
        random = np.random.default_rng(0)
        decoder, weights = open_case("llama")
        wide = dict(weights)
        for name in "embedding", "lm_head":
            values = random.normal(0, 0.2, (40_000, decoder.hidden_size)).astype(np.float16)
            wide[name] = replace(weights[name], values=values)
        decoder = replace(decoder, vocab_size=40_000)
        lower(decoder, wide, tmp_path, precision_name="f16", packages=[SLICE, Package("plain", "io")], chunk=CHUNK)
        tokens = random.integers(0, 40_000, (1, 12))
        fixed = rounded_constants(decoder, decoder.context_length)
        expected = ReferenceSession(fixed, Stored(wide)).forward(tokens)
        pieces = [16384, 16384, 7232]
        for package in SLICE, Package("plain", "io"):
            session = interpreted(tmp_path, package)
            assert distance(session.forward(tokens), expected) < EXACT
            decode = session.functions.decode
            assert isinstance(decode, Interpreter)
            shapes = {name: shape for step in decode.steps for name, _, shape in step.outputs}
            assert [max(n or 0 for n in shapes[f"logits_{i}"]) for i in range(len(pieces))] == pieces

    def test_a_long_context_is_cut(self, tmp_path: Path) -> None:
        decoder, weights = open_case("llama")
        lower(replace(decoder, context_length=5000), weights, tmp_path, precision_name="f16", packages=[SLICE])
        session = interpreted(tmp_path)
        assert (session.context_length, session.lowered.capacity, session.lowered.chunk) == (2048, 2048, 64)
        decoder, weights = open_case("t5-flan")
        (tmp_path / "t5").mkdir()
        lower(replace(decoder, context_length=5000), weights, tmp_path / "t5", precision_name="f16")
        session = interpreted(tmp_path / "t5", Package("plain", "io"))
        assert (session.context_length, session.lowered.capacity, session.lowered.prompt) == (512, 512, 512)
        assert present(tmp_path / "t5", "npu") == [Package("channels", "io")]

    def test_what_is_asked_for_at_f32_is_called_f16(self, lowered: Lowered) -> None:
        session = interpreted(lowered("gpt2", "f32"))
        assert session.placement.precision == "f16"
        tokens = tokens_of("gpt2")[:1]
        assert distance(session.forward(tokens), reference("gpt2").forward(tokens)) < EXACT

    def test_what_cannot_be_lowered_is_refused_by_name(self, tmp_path: Path) -> None:
        decoder, weights = open_case("gpt2")
        values = np.full((decoder.hidden_size,), 1e5, np.float32)
        large = dict(weights) | {"norm": replace(weights["norm"], values=values)}
        with pytest.raises(BackendError, match="the weight norm has values that float16 cannot hold"):
            coreml.lower(decoder, large, tmp_path, precision="f16")
        uneven = replace(decoder, layers=(decoder.layers[0], replace(decoder.layers[1], kv_heads=1)))
        with pytest.raises(BackendError, match="heads of different sizes"):
            coreml.lower(uneven, weights, tmp_path, precision="f16")
        sharing = replace(decoder, layers=(decoder.layers[0], replace(decoder.layers[0], kv_layer=0)))
        with pytest.raises(BackendError, match="its layers share keys and values"):
            coreml.lower(sharing, weights, tmp_path, precision="f16")

    def test_a_program_that_is_not_well_formed_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def program(*parts: Any) -> Any:  # Any: handed on as they are
            built = lowering_program(*parts)
            operations = list(built.functions["decode"].operations)
            operations[40].outputs[0]._child_ops.append(operations[30])  # which does not take it
            return built

        lowering_program = lowering.program
        monkeypatch.setattr(lowering, "program", program)
        with pytest.raises(BackendError, match="coremltools cannot convert .* should be consumed by"):
            lower(*open_case("gpt2"), tmp_path, precision_name="f16", packages=[SLICE])

    def test_the_store_lowers_for_a_mac_on_any_system(self, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
        store = Store(tmp_path / "store")
        variant = store.lowered(store.get(str(checkpoint())), "coreml", "int4")
        assert sorted(path.name for path in variant.folder.glob("*.mlpackage")) == sorted(
            f"{package}.mlpackage" for package in ALL
        )
        weights = (variant.folder / f"{SLICE}.mlpackage" / WEIGHTS).stat().st_size
        assert weights < variant.size < 2 * weights + 1_000_000  # logits and programs; the weights are there once

    @pytest.mark.parametrize("name", ["decoder.json", "expected.npz", f"{SLICE}.mlpackage/{DATA}/model.mlmodel"])
    def test_a_damaged_folder_is_refused_by_its_path(self, name: str, lowered: Lowered, tmp_path: Path) -> None:
        folder = tmp_path / "damaged"
        shutil.copytree(lowered("gpt2"), folder)
        (folder / name).write_bytes(b"\x00\x01\x02")
        with pytest.raises(BackendError, match=str(folder)):
            trial.compared(interpreted(folder), folder)

    def test_missing_weights_are_refused_by_their_path(self, lowered: Lowered, tmp_path: Path) -> None:
        folder = tmp_path / "damaged"
        shutil.copytree(lowered("gpt2"), folder)
        path = folder / f"{SLICE}.mlpackage" / WEIGHTS
        path.write_bytes(path.read_bytes()[:-4096])
        with pytest.raises(BackendError, match=r"weight\.bin is shorter than its program says"):
            interpreted(folder)


def change_version(model: Model_pb2.Model) -> None:
    model.specificationVersion = 8


def drop_function(model: Model_pb2.Model) -> None:
    del model.mlProgram.functions["prefill"]


def drop_write(model: Model_pb2.Model) -> None:
    operations = model.mlProgram.functions["decode"].block_specializations["CoreML8"].operations
    del operations[next(i for i, operation in enumerate(operations) if operation.type == "write_state")]


def unknown_operation(model: Model_pb2.Model) -> None:
    operations = model.mlProgram.functions["decode"].block_specializations["CoreML8"].operations
    next(operation for operation in operations if operation.type == "softmax").type = "softplus"


def unknown_input(model: Model_pb2.Model) -> None:
    operations = model.mlProgram.functions["decode"].block_specializations["CoreML8"].operations
    softmax = next(operation for operation in operations if operation.type == "softmax")
    softmax.inputs["temperature"].CopyFrom(softmax.inputs["axis"])


def drop_state(model: Model_pb2.Model) -> None:
    del model.description.functions[0].state[0]


def wide_input(model: Model_pb2.Model) -> None:
    feature = model.description.functions[0].input[0].type.multiArrayType
    feature.dataType = Model_pb2.ArrayFeatureType.FLOAT32


def wide_value(model: Model_pb2.Model) -> None:
    operations = model.mlProgram.functions["decode"].block_specializations["CoreML8"].operations
    softmax = next(operation for operation in operations if operation.type == "softmax")
    softmax.outputs[0].type.tensorType.dataType = 11  # float32


def weights_apart(model: Model_pb2.Model) -> None:
    operations = model.mlProgram.functions["prefill"].block_specializations["CoreML8"].operations
    constants = (operation.attributes["val"] for operation in operations if operation.type == "const")
    next(value for value in constants if value.WhichOneof("value") == "blobFileValue").blobFileValue.offset += 64


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (change_version, "specification's version"),
        (drop_function, "other functions than decode, prefill"),
        (drop_write, "writes the states"),
        (unknown_operation, "has the operation softplus"),
        (drop_state, "does not describe its states"),
        (wide_input, "not float16"),
        (wide_value, "wide type"),
        (weights_apart, "weights of its two functions apart"),
    ],
)
def test_a_package_that_breaks_a_rule_is_refused(
    change: Callable[[Model_pb2.Model], None], complaint: str, lowered: Lowered, tmp_path: Path
) -> None:
    folder = changed(lowered("gpt2"), tmp_path, change)
    with pytest.raises(BackendError, match=complaint):
        check(folder / f"{SLICE}.mlpackage", contents(folder).lowered, SLICE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (unknown_operation, "the operation 'softplus', which the interpreter does not know"),
        (unknown_input, r"inputs the interpreter does not know: \['temperature'\]"),
    ],
)
def test_the_interpreter_refuses_what_it_does_not_know(
    change: Callable[[Model_pb2.Model], None], complaint: str, lowered: Lowered, tmp_path: Path
) -> None:
    with pytest.raises(BackendError, match=complaint):
        interpreted(changed(lowered("gpt2"), tmp_path, change))


def changed(folder: Path, target: Path, change: Callable[[Model_pb2.Model], None]) -> Path:
    """A copy of a lowered folder with another program."""
    shutil.copytree(folder, target / "changed")
    path = target / "changed" / f"{SLICE}.mlpackage"
    model = specification_of(path)
    change(model)
    (path / DATA / "model.mlmodel").write_bytes(model.SerializeToString())
    return target / "changed"


class TestTrials:
    @pytest.fixture
    def folder(self, lowered: Lowered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A lowered folder, and the faulty runtimes within reach of child processes."""
        tests = Path(__file__).parents[1]
        paths = [str(tests / "runtimes"), str(tests), os.environ["PYTHONPATH"]]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.syspath_prepend(paths[0])
        shutil.copytree(lowered("gpt2", packages=ALL), tmp_path / "lowered")
        return tmp_path / "lowered"

    def test_what_crashes_is_rejected_and_the_next_best_is_chosen(self, folder: Path) -> None:
        steps: list[tuple[str, float]] = []
        found = choice.trials(folder, "gpu", module="faulty", on_progress=lambda *step: steps.append(step))
        assert found[0].reason == "it crashed while decoding, after 100 steps (SIGABRT)"
        assert not found[1].reason and found[1].error < CLOSE and found[1].decode_seconds > 0
        assert ("preparing plain-slice for gpu, once", 0.0) in steps
        assert choice.recorded(folder) == {"gpu": found}
        told = json.loads(json.dumps(report.report(folder, ["gpu"], module="faulty")))
        assert told["trials"][0]["reason"] == found[0].reason and told["precision"] == "f16"
        session = choice.open_session(folder, "gpu", module="faulty")
        assert session.package == Package("plain", "io")
        assert session.placement == backends.Placement("coreml", "gpu 75%, cpu 25%", "f16")
        tokens = tokens_of("gpt2")[:1]
        assert distance(session.forward(tokens), reference("gpt2").forward(tokens)) < EXACT

    def test_what_hangs_is_ended_and_rejected(self, folder: Path) -> None:
        found = trial.try_out(folder, SLICE, "npu", module="faulty", limit=3)
        assert found.reason.startswith("it hung while")
        assert found.reason.endswith("not finished after 3 s")

    def test_a_child_that_cannot_start_is_a_crash(self, folder: Path) -> None:
        found = trial.try_out(folder, SLICE, "npu", module="absent")
        assert found.reason == "it crashed while starting (ModuleNotFoundError: No module named 'absent')"

    @pytest.mark.parametrize(
        ("device", "reason"),
        [("wrong", "its logits are wrong: 0.[0-9]+ standard deviations"), ("broken", "not all finite numbers")],
    )
    def test_wrong_logits_are_rejected(self, device: str, reason: str, folder: Path) -> None:
        import faulty

        found = trial.run(folder, SLICE, device, faulty)
        assert found == replace(found, decode_seconds=0.0, placement={})
        with pytest.raises(BackendError, match=f"Core ML cannot run this model on npu: channels-slice: .*{reason}"):
            choice.chosen([replace(found, device="npu")], "npu")

    def test_a_refusal_and_a_silent_plan_are_told(
        self, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import faulty

        monkeypatch.setattr(trial, "STEPS", 90)
        trial.main([str(folder), "plain", "io", "refusing", "faulty"])
        report = json.loads(capfd.readouterr().out.splitlines()[-1])["report"]
        assert report["reason"].endswith("error code: -14")
        found = trial.run(folder, Package("plain", "io"), "silent", faulty)
        assert not found.reason and found.placement == {}
        assert choice.described(found) == "silent (not confirmed)"

    def test_the_fastest_that_passed_is_chosen_and_the_others_are_deleted(self, tmp_path: Path) -> None:
        def tried(policy: Policy, seconds: float, reason: str = "") -> trial.Trial:
            return trial.Trial("channels", policy, "npu", reason, decode_seconds=seconds, placement={"npu": 0.97})

        found = [tried("slice", 0.1, "it crashed"), tried("io", 0.3), tried("onehot", 0.2)]
        for policy in "slice", "io", "onehot":
            (tmp_path / "compiled" / f"channels-{policy}.mlmodelc").mkdir(parents=True)
        best = choice.chosen(found, "npu")
        choice.remove_compiled(tmp_path, {"npu": found})
        assert best == found[2]
        assert choice.described(best) == "npu"
        assert [path.name for path in (tmp_path / "compiled").iterdir()] == ["channels-onehot.mlmodelc"]

    def test_a_damaged_record_is_refused_by_its_path(self, tmp_path: Path) -> None:
        (tmp_path / "trials.json").write_text("[1]")
        with pytest.raises(BackendError, match=rf"{tmp_path}/trials\.json cannot be read.*delete it"):
            choice.recorded(tmp_path)


class Plan:
    """A compute plan: pairs of a device and a cost stand for operations."""

    def get_compute_device_usage_for_mlprogram_operation(self, operation: tuple[object, float]) -> object:
        kind, _ = operation
        return kind and coremltools.models.compute_plan.MLComputePlanDeviceUsage(kind, [kind])

    def get_estimated_cost_for_mlprogram_operation(self, operation: tuple[object, float]) -> object:
        return coremltools.models.compute_plan.MLComputePlanCost(operation[1])


def test_placement_is_the_share_of_the_planned_work() -> None:
    devices = coremltools.models.compute_device
    engine, processor = (
        object.__new__(kind) for kind in (devices.MLNeuralEngineComputeDevice, devices.MLCPUComputeDevice)
    )
    shares = device.shares(Plan(), [(engine, 3.0), (None, 9.0), (processor, 1.0), (engine, 1.0)])
    assert shares == {"npu": 0.8, "cpu": 0.2}
    assert device.shares(Plan(), []) == {}


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is there")
def test_off_the_mac_there_are_no_devices_and_the_reason_is_told(lowered: Lowered) -> None:
    assert coreml.devices() == []
    assert coreml.missing() == "Core ML needs macOS"
    with pytest.raises(BackendError, match="no device 'npu' here: Core ML needs macOS"):
        coreml.load(lowered("gpt2"), device="npu")
    with pytest.raises(BackendError, match="no device 'npu' here: Core ML needs macOS"):
        backends.prepare("coreml", lowered("gpt2"), device="npu")
    with pytest.raises(SystemExit, match="nothing to report: Core ML needs macOS"):
        report.main([str(lowered("gpt2"))])
    with pytest.raises(BackendError, match="Core ML cannot compile"):
        device.open_functions(lowered("gpt2"), SLICE, "npu")
