"""Core ML off the Mac: every package is read back from the disk and interpreted, and must agree with the reference."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not find_spec("coremltools"):  # it has no wheels for every system
    pytest.skip("coremltools is not installed", allow_module_level=True)

from conftest import MakeCheckpoint

import backends
from backends import BackendError, ContextExceeded, coreml
from backends.coreml import choice, device, report, trial
from backends.coreml.inputs import Package
from backends.coreml.interpreter import DATA, Interpreter, open_functions, program_of, stored
from backends.coreml.packages import ALL, WEIGHTS, contents, lower, present
from backends.coreml.runtime import Functions
from backends.coreml.session import Session
from backends.coreml.stored import Stored, rounded_constants
from backends.coreml.structure import check
from backends.coreml.tools import Model_pb2, coremltools
from backends.decoder import Decoder, Weights
from backends.quantize import PRECISIONS, Rounded
from backends.reference import Session as ReferenceSession
from model_store import Store
from model_store.convert import open_checkpoint
from model_store.weights import Canonical

GOLDEN = Path(__file__).parent / "golden"
ANSWERS = GOLDEN.with_name("golden_answers")
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
EXACT = 2e-5
"""In standard deviations of the logits, at most: float32 arithmetic on the weights as they are stored."""
CLOSE = 0.01
"""The same on average, where float16 scales and constants stand for float32 ones, or float16 is computed with."""
CHUNK = 8
"""Tokens of a prefill in these tests, so that short texts have several chunks, and a padded one."""
SLICE = Package("channels", "slice")
Lowered = Callable[..., Path]


def open_case(case: str) -> tuple[Decoder, Weights]:
    """The decoder of a golden checkpoint, and its weights."""
    checkpoint, family, decoder = open_checkpoint((GOLDEN if case in CASES else ANSWERS) / case)
    return decoder, Canonical(checkpoint, family, decoder)


def tokens_of(case: str) -> np.ndarray:
    """Tokens (3, 24)."""
    tokens: np.ndarray = np.load(GOLDEN / case / "golden.npz")["tokens"]
    return tokens


@pytest.fixture(scope="session")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    """Lower a golden checkpoint, once for all tests that want it so."""
    made: dict[tuple[object, ...], Path] = {}

    def make(case: str, precision: str = "f16", packages: Sequence[Package] = (SLICE,)) -> Path:
        key = case, precision, *packages
        if key not in made:
            made[key] = tmp_path_factory.mktemp("lowered")
            lower(*open_case(case), made[key], precision_name=precision, packages=packages, chunk=CHUNK)
        return made[key]

    return make


def interpreted(folder: Path, package: Package = SLICE) -> Session:
    """A session on the interpreter."""
    return Session(folder, package, open_functions(folder, package, "cpu"), device="cpu")


def reference(case: str, precision: str = "f16") -> ReferenceSession:
    """The reference, with weights and constants as they are stored."""
    decoder, weights = open_case(case)
    exactly = Stored(Rounded(weights, PRECISIONS[precision]))
    return ReferenceSession(rounded_constants(decoder, decoder.context_length), exactly)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """How far logits are from those expected, in standard deviations of them, at most."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / expected.std())


@pytest.mark.parametrize("case", CASES)
class TestEveryFamily:
    def test_prefill_in_chunks_then_steps(self, case: str, lowered: Lowered) -> None:
        session, tokens = interpreted(lowered(case)), tokens_of(case)
        expected = reference(case).forward(tokens[:1], last=24)
        found = [session.forward(tokens[:1, :14], last=2)]  # a whole chunk, a padded one, two steps
        found += [session.forward(tokens[:1, i : i + 1]) for i in range(14, 24)]
        assert distance(np.concatenate(found, axis=1), expected[:, 12:]) < EXACT

    def test_three_rows_rewound_and_reordered(self, case: str, lowered: Lowered) -> None:
        session, tokens = interpreted(lowered(case)), tokens_of(case)
        expected = reference(case).forward(tokens, last=24)
        assert distance(session.forward(tokens[:, :16], last=2), expected[:, 14:16]) < EXACT
        session.rewind(11)
        assert distance(session.forward(tokens[:, 11:15]), expected[:, 14:15]) < EXACT
        session.reorder([2, 1, 2, 2])
        session.forward(tokens[[0, 1, 2, 2], 15:16])
        session.reorder([3, 1])  # the first row took another turn
        assert distance(session.forward(tokens[[2, 1], 16:17]), expected[[2, 1], 16:17]) < EXACT

    def test_the_unrounded_model_is_near(self, case: str, lowered: Lowered) -> None:
        session, arrays = interpreted(lowered(case)), np.load(GOLDEN / case / "golden.npz")
        found = session.forward(arrays["tokens"][:1, :20], last=4)
        expected = arrays["logits"][:1, 16:20]
        assert np.abs(found - expected).mean() < CLOSE * expected.std()


@pytest.mark.parametrize("package", [package for package in ALL if package != SLICE], ids=str)
@pytest.mark.parametrize("case", ["gpt2", "llama", "qwen3", "bloom", "gemma2"])
def test_every_cache_policy_and_layout(case: str, package: Package, lowered: Lowered) -> None:
    session, tokens = interpreted(lowered(case, packages=(package,)), package), tokens_of(case)
    expected = reference(case).forward(tokens, last=24)
    assert distance(session.forward(tokens[:, :12]), expected[:, 11:12]) < EXACT
    session.rewind(9)
    session.reorder([2, 2])
    assert distance(session.forward(tokens[[2, 2], 9:20], last=2), expected[[2, 2], 18:20]) < EXACT
    session.reorder([1])
    assert distance(session.forward(tokens[2:, 20:21]), expected[2:, 20:21]) < EXACT


@pytest.mark.parametrize("package", [Package("channels", "io"), Package("plain", "io")], ids=str)
@pytest.mark.parametrize("case", sorted(path.name for path in ANSWERS.iterdir()))
class TestEncoders:
    def test_prompts_are_read_whole_and_answered(self, case: str, package: Package, lowered: Lowered) -> None:
        arrays = np.load(ANSWERS / case / "golden.npz")
        prompts, answers = arrays["prompts"], arrays["answers"]
        session, right = interpreted(lowered(case, packages=(package,)), package), reference(case)
        assert session.whole_prompts
        with pytest.raises(BackendError, match="only the answer's first token has logits"):
            session.forward(prompts, last=2)
        assert distance(session.forward(prompts), right.forward(prompts)) < EXACT
        expected = right.forward(answers[:, :24], last=24)
        assert distance(session.forward(answers[:, :14], last=2), expected[:, 12:14]) < EXACT
        assert session.length == prompts.shape[1] + 14
        with pytest.raises(BackendError, match="an encoder has read the first"):
            session.rewind(5)
        session.rewind(prompts.shape[1] + 9)
        assert distance(session.forward(answers[:, 9:15]), expected[:, 14:15]) < EXACT
        session.reorder([2, 0, 2])
        assert distance(session.forward(answers[[2, 0, 2], 15:16]), expected[[2, 0, 2], 15:16]) < EXACT
        session.rewind(0)
        assert (session.length, session.batch) == (0, 0)
        right.rewind(0)
        assert distance(session.forward(prompts[1:2, :7]), right.forward(prompts[1:2, :7])) < EXACT

    def test_the_context_holds_prompt_and_answer(self, case: str, package: Package, lowered: Lowered) -> None:
        arrays = np.load(ANSWERS / case / "golden.npz")
        session, right = interpreted(lowered(case, packages=(package,)), package), reference(case)
        size = session.context_length - 4
        prompt, answer = np.resize(arrays["prompts"][:1], (1, size)), arrays["answers"][:1, :4]
        for one in session, right:
            one.forward(prompt)
        assert distance(session.forward(answer), right.forward(answer)) < EXACT
        with pytest.raises(ContextExceeded, match="do not fit the context"):
            session.forward(answer[:, :1])

    def test_trials_compare_and_time_it_too(self, case: str, package: Package, lowered: Lowered) -> None:
        session = interpreted(lowered(case, packages=(package,)), package)
        reason, error = trial.compared(session, lowered(case, packages=(package,)))
        assert not reason and error < CLOSE
        assert min(trial.timed(session)) > 0


@pytest.mark.parametrize(
    "precision", ["int8", "int8-asym-32", "int4", "int4-asym", "mxint8", "mxfp6-e3m2", "mxfp4", "mx9", "mx4"]
)
@pytest.mark.parametrize(("case", "package"), [("gpt2", Package("plain", "io")), ("llama-tied_scaled", SLICE)])
def test_rounded_weights_are_computed_with(case: str, precision: str, package: Package, lowered: Lowered) -> None:
    session, tokens = interpreted(lowered(case, precision, (package,)), package), tokens_of(case)[:1]
    found = session.forward(tokens, last=8)
    assert session.placement.precision == precision
    assert distance(found, reference(case, precision).forward(tokens, last=8)) < EXACT
    decoder, weights = open_case(case)
    near = ReferenceSession(decoder, Rounded(weights, PRECISIONS[precision])).forward(tokens, last=8)
    assert np.abs(found - near).mean() < CLOSE * near.std()


@pytest.mark.parametrize("case", ["gpt2", "llama", "gemma2"])
def test_float16_arithmetic_and_states_cost_little(case: str, lowered: Lowered) -> None:
    path = lowered(case) / f"{SLICE}.mlpackage"
    functions = Functions(Interpreter(path, "prefill", stored), Interpreter(path, "decode", stored))
    session, tokens = Session(lowered(case), SLICE, functions, device="cpu"), tokens_of(case)[:1]
    expected = reference(case).forward(tokens, last=8)
    error = np.abs(session.forward(tokens, last=8) - expected) / expected.std()
    assert error.max() > EXACT
    assert error.mean() < CLOSE


def same(decoder: Decoder) -> Decoder:
    return decoder


def other_gelu(decoder: Decoder) -> Decoder:
    return replace(decoder, activation="gelu")


def unscaled(decoder: Decoder) -> Decoder:
    return replace(decoder, layers=tuple(replace(a, scale=1.001 * a.scale) for a in decoder.layers))


def other_epsilon(decoder: Decoder) -> Decoder:
    return replace(decoder, epsilon=10 * decoder.epsilon)


def narrower(decoder: Decoder) -> Decoder:
    return replace(decoder, layers=tuple(replace(a, window=12) for a in decoder.layers))


@pytest.mark.parametrize(
    ("mutation", "right"),
    [(same, True), (other_gelu, False), (unscaled, False), (other_epsilon, False), (narrower, False)],
)
def test_small_mistakes_are_seen(mutation: Callable[[Decoder], Decoder], right: bool, tmp_path: Path) -> None:
    decoder, weights = open_case("gpt2")
    lower(mutation(decoder), weights, tmp_path, precision_name="f16", packages=[SLICE], chunk=CHUNK)
    tokens = tokens_of("gpt2")[:1]
    found = interpreted(tmp_path).forward(tokens, last=8)
    assert (distance(found, reference("gpt2").forward(tokens, last=8)) < EXACT) is right


def test_the_context_is_used_up_to_its_end_and_not_overrun(lowered: Lowered) -> None:
    session = interpreted(lowered("llama"))
    tokens = np.resize(tokens_of("llama")[:1], (1, session.context_length))
    expected = reference("llama").forward(tokens, last=1)
    session.forward(tokens[:, :3])
    assert distance(session.forward(tokens[:, 3:]), expected) < EXACT  # no room for the last whole chunk
    with pytest.raises(ContextExceeded, match="do not fit the context"):
        session.forward(tokens[:, :1])
    session.rewind(session.length - 1)
    assert distance(session.forward(tokens[:, -1:]), expected) < EXACT


def test_impossible_calls_are_refused_and_change_nothing(lowered: Lowered) -> None:
    session, tokens = interpreted(lowered("llama")), tokens_of("llama")
    session.forward(tokens[:1, :10])
    impossible: list[Callable[[], object]] = [
        lambda: session.rewind(11),
        lambda: session.reorder([1]),
        lambda: session.forward(tokens[:2, :1]),
        lambda: session.forward(tokens[:1, :2], last=3),
    ]
    for call in impossible:
        with pytest.raises(BackendError):
            call()
    expected = reference("llama").forward(tokens[:1, :11])
    assert distance(session.forward(tokens[:1, 10:11]), expected) < EXACT


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
    model, _ = program_of(path)
    change(model)
    (path / DATA / "model.mlmodel").write_bytes(model.SerializeToString())
    return target / "changed"


class TestTrials:
    @pytest.fixture
    def folder(self, lowered: Lowered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A lowered folder, and the faulty runtimes within reach of child processes."""
        paths = [str(Path(__file__).parent / "runtimes"), os.environ["PYTHONPATH"]]
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
        assert found.reason.endswith("no end after 3 s")

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

        trial.main([str(folder), "plain", "io", "refusing", "faulty"])
        report = json.loads(capfd.readouterr().out.splitlines()[-1])["report"]
        assert report["reason"].endswith("error code: -14")
        found = trial.run(folder, Package("plain", "io"), "silent", faulty)
        assert not found.reason and found.placement == {}
        assert choice.described(found) == "silent (not confirmed)"

    def test_the_fastest_that_passed_is_chosen_and_the_others_are_deleted(self, tmp_path: Path) -> None:
        def tried(policy: str, seconds: float, reason: str = "") -> trial.Trial:
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
    assert coreml.missing() == "Core ML is part of macOS"
    with pytest.raises(BackendError, match="no device 'npu' here: Core ML is part of macOS"):
        coreml.load(lowered("gpt2"), device="npu")
    with pytest.raises(BackendError, match="no device 'npu' here: Core ML is part of macOS"):
        backends.prepare("coreml", lowered("gpt2"), device="npu")
    with pytest.raises(SystemExit, match="nothing to report: Core ML is part of macOS"):
        report.main([str(lowered("gpt2"))])
    with pytest.raises(BackendError, match="Core ML cannot compile"):
        device.open_functions(lowered("gpt2"), SLICE, "npu")


def test_nothing_reaches_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lower(*open_case("gpt2"), tmp_path, precision_name="int8", packages=[SLICE], chunk=CHUNK)
    interpreted(tmp_path).forward(tokens_of("gpt2"))
    assert capfd.readouterr() == ("", "")
