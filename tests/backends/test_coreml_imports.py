"""Core ML packages of others, in the forms that are published: read, interpreted, and imported like any other model."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Vocabulary
from tokenizers import models

import backends
from backends import BackendError, ContextExceeded, Placement, coreml
from backends.coreml import choice, device
from backends.coreml.contract import DATA, Array, specification_of
from backends.coreml.inputs import MASKED
from backends.coreml.prebuilt import PrebuiltSession, inspect, open_session, values
from backends.coreml.stored import rounded_constants
from backends.coreml.tools import Model_pb2
from backends.prebuilt import Prebuilt, write
from chatapp.generation import Options
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from model_store import Store, StoreError, UnsupportedCheckpoint, imports
from support.checkpoints import Run
from support.coreml_cases import EXACT, distance, open_case, reference, tokens_of
from support.coreml_exports import FORMS, WINDOW, export
from support.coreml_interpreter import Interpreter

GOLDEN = Path(__file__).parents[1] / "golden" / "gpt2"
FLOAT32, DOUBLE, INT32 = (getattr(Model_pb2.ArrayFeatureType, name) for name in ("FLOAT32", "DOUBLE", "INT32"))
Export = Callable[[str], Path]


@pytest.fixture(scope="module")
def export_as(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The folder of a repository that holds GPT-2 exported in a form, made once for all tests."""
    made: dict[str, Path] = {}

    def make(form: str) -> Path:
        if form not in made:
            made[form] = folder = tmp_path_factory.mktemp("exports") / f"tiny-{form}"
            folder.mkdir()
            decoder, weights = open_case("gpt2")
            export(rounded_constants(decoder, WINDOW), weights, folder / "model.mlpackage", form)
            shutil.copy(GOLDEN / "config.json", folder)
            words = {f" w{i}": i for i in range(decoder.vocab_size)}
            Vocabulary(models.WordLevel(words, " w0")).save(str(folder / "tokenizer.json"))
        return made[form]

    return make


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repository(export_as: Export, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(export_as("llama"), tmp_path / "tiny"))


def interpreted(repository: Path, context_length: int = 4096) -> PrebuiltSession:
    """A session on the interpreter."""
    found = Prebuilt(str(repository / "model.mlpackage"), context_length)
    return open_session(found, repository, "cpu", module="support.coreml_interpreter")


class TestLogits:
    @pytest.fixture
    def session(self, form: str, export_as: Export, monkeypatch: pytest.MonkeyPatch) -> PrebuiltSession:
        monkeypatch.setattr("backends.coreml.prebuilt.CHUNK", 7)  # or every prompt here would be one
        return interpreted(export_as(form))

    def test_prefill_steps_rows_and_rewinding(self, session: PrebuiltSession) -> None:
        tokens = tokens_of("gpt2")
        expected = reference("gpt2").forward(tokens, last=24)
        assert distance(session.forward(tokens[:1, :16], last=16), expected[:1, :16]) < EXACT
        for i in (16, 17):
            assert distance(session.forward(tokens[:1, i : i + 1]), expected[:1, i : i + 1]) < EXACT
        session.rewind(0)
        assert distance(session.forward(tokens[:, :16], last=2), expected[:, 14:16]) < EXACT
        session.forward(np.roll(tokens[:, 16:20], 2, axis=1))
        session.rewind(11)
        assert distance(session.forward(tokens[:, 11:21], last=4), expected[:, 17:21]) < EXACT
        assert (session.length, session.batch, session.vocab_size) == (21, 3, 96)
        assert session.placement == Placement("coreml", "cpu (not confirmed)", "exported")

    def test_reordering(self, session: PrebuiltSession) -> None:
        tokens = tokens_of("gpt2")
        expected = reference("gpt2").forward(tokens, last=24)
        session.forward(tokens[2:, :12])
        session.reorder([0, 0])
        session.forward(tokens[[2, 1], 12:15])
        assert distance(session.forward(tokens[[2, 1], 15:16])[:1], expected[2:, 15:16]) < EXACT
        session.reorder([1, 0, 0])
        assert distance(session.forward(tokens[[2, 2, 2], 16:17])[1:], expected[[2, 2], 16:17]) < EXACT
        session.reorder([2])
        assert distance(session.forward(tokens[2:, 17:18]), expected[2:, 17:18]) < EXACT

    def test_the_context_is_used_up_to_its_end_and_not_overrun(self, form: str, session: PrebuiltSession) -> None:
        assert session.context_length == (WINDOW - 7 if form == "blocks" else WINDOW)  # whose last call is padded
        tokens = np.random.default_rng(0).integers(0, 96, (1, session.context_length))
        session.forward(tokens[:, :-1])
        assert distance(session.forward(tokens[:, -1:]), reference("gpt2").forward(tokens)) < EXACT
        with pytest.raises(ContextExceeded):
            session.forward(tokens[:, :1])
        assert session.length == session.context_length


def test_a_shorter_context_of_the_publisher_counts(export_as: Export) -> None:
    assert interpreted(export_as("llama"), 32).context_length == 32


def test_greedy_text_is_that_of_the_reference(form: str, export_as: Export) -> None:
    tokenizer, options = Tokenizer(export_as(form)), Options(temperature=0, max_tokens=12)
    engines = [Engine(session, tokenizer) for session in (interpreted(export_as(form)), reference("gpt2"))]
    found, expected = ["".join(delta.text for delta in engine.complete(" w5", options)) for engine in engines]
    assert found == expected and len(found.split()) == 12


def test_inputs_of_another_size_are_refused_by_the_interpreter(export_as: Export) -> None:
    function = Interpreter(export_as("llama") / "model.mlpackage", "main")
    inputs = {"inputIds": np.zeros((1, 3), np.int32), "causalMask": np.zeros((1, 3, 3), np.float32)}
    with pytest.raises(BackendError, match="the program takes"):
        function.predict(inputs, function.make_state())


class TestImports:
    def test_a_package_is_linked_or_copied(self, form: str, export_as: Export, store: Store, tmp_path: Path) -> None:
        repository = Path(shutil.copytree(export_as(form), tmp_path / "mine"))
        plan = imports.plan(store, str(repository))
        assert plan.kind == "export for coreml" and plan.copied == 0 and not store.root.exists()
        model = imports.carry_out(store, plan)
        assert (model.name, model.export, model.precision, model.family) == ("mine", "coreml", "exported", "gpt2")
        assert model.parameters == pytest.approx(
            33_824 + (WINDOW**2 if form in ("window", "growing", "wanted") else 0), rel=0.01
        )
        assert (model.context_length, model.size > 60_000) == (57 if form == "blocks" else 64, True)
        assert store.get(str(repository / "model.mlpackage")).name == "mine"
        variant = store.lowered(model, "coreml")
        assert json.loads((variant.folder / "foreign.json").read_text())["graph"] == str(plan.source)
        with pytest.raises(StoreError, match="is an export for coreml and runs as it is, not on onnx at exported"):
            store.lowered(model, "onnx")
        copied = imports.carry_out(store, imports.plan(store, str(repository), name="copy", copy=True))
        shutil.rmtree(repository)
        graph = store.lowered(store.get("copy"), "coreml").folder / "foreign.json"
        assert json.loads(graph.read_text())["graph"] == str(copied.folder / "model.mlpackage")
        assert interpreted(copied.folder).forward(np.zeros((1, 2), np.int64)).shape == (1, 1, 96)
        with pytest.raises(StoreError, match="put it back, or remove the model"):
            store.get("mine")

    def test_a_package_that_has_changed_is_looked_at_anew(
        self, repository: Path, export_as: Export, store: Store
    ) -> None:
        model = store.get(str(repository))
        variant = store.lowered(model, "coreml")
        assert store.lowered(store.get(model.name), "coreml").seconds == 0
        shutil.copytree(export_as("window"), repository, dirs_exist_ok=True)
        assert store.get(model.name).parameters > model.parameters + 4000
        assert not variant.folder.exists()

    def test_older_vocabulary_files_make_a_tokenizer(self, repository: Path, store: Store) -> None:
        (repository / "tokenizer.json").unlink()
        with pytest.raises(UnsupportedCheckpoint, match=r"tokenizer\.json"):
            store.get(str(repository))
        (repository / "vocab.json").write_text(json.dumps({chr(33 + i): i for i in range(90)} | {"<|endoftext|>": 90}))
        (repository / "merges.txt").write_text("#version: 0.2\n")
        model = store.get(str(repository))
        assert Tokenizer(model.folder, store.tokenizer(model)).encode("A!") == [32, 0]

    @pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is there")
    def test_off_the_mac_it_is_listed_and_running_it_tells_why_not(
        self, repository: Path, chatapp: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CHATAPP_BACKEND")
        done = chatapp("import", str(repository))
        assert done.returncode == 0, done.stderr
        assert "tiny" in chatapp("list").stdout
        assert "an export runs as it is, on coreml only" in chatapp("show", "tiny").stdout
        for extra in ((), ("--backend", "coreml")):
            done = chatapp("run", "tiny", "hello", *extra)
            assert done.returncode == 1 and "Core ML needs macOS" in done.stderr


class TestRefusals:
    @staticmethod
    def change(repository: Path, edit: Callable[[Model_pb2.Model], object]) -> None:
        specification = specification_of(repository / "model.mlpackage")
        edit(specification)
        (repository / "model.mlpackage" / DATA / "model.mlmodel").write_bytes(specification.SerializeToString())

    @pytest.mark.parametrize(
        ("edit", "complaint"),
        [
            (lambda s: setattr(s.description.input[0], "name", "hidden_states"), "needs the input hidden_states"),
            (lambda s: s.description.input.pop(0), r"no input input_ids, but causalMask \(1, 1, 1 to 64, 1 to 64\)"),
            (lambda s: s.description.input.pop(1), r"no mask of the text's length and no position_ids, but inputIds"),
            (lambda s: setattr(s.description.output[0], "name", "hidden"), "has no output logits, but hidden"),
            (lambda s: s.description.state[0].type.stateType.arrayType.shape.pop(), r"keyCache \(2, 1, 2, 64\)"),
            (lambda s: shorten(s.description.state[1]), "not keys and values of one length"),
            (lambda s: s.mlProgram.functions["more"].CopyFrom(s.mlProgram.functions["main"]), "functions main, more"),
            (lambda s: s.ClearField("mlProgram"), "has no program"),
            (lambda s: setattr(array(s, 0), "dataType", FLOAT32), r"inputIds of float32 \(1, 1 to 64\), which"),
            (lambda s: setattr(array(s, 1), "dataType", DOUBLE), "causalMask of double"),
            (lambda s: array(s, 0).shapeRange.sizeRanges.pop(), r"input inputIds of int32 \(1\)"),
            (lambda s: setattr(array(s, 1), "dataType", INT32), r"causalMask of int32 \(1, 1, 1 to 64, 1 to 64\)"),
            (lambda s: several(array(s, 0)), "inputIds in a few sizes only"),
            (lambda s: least(array(s, 1), 2), "sizes do not go together: inputIds .*, causalMask .1, 1, 2 to 64"),
            (lambda s: least(array(s, 1), 3), "sizes do not go together"),
        ],
    )
    def test_what_does_not_fit_is_named(
        self, edit: Callable[[Model_pb2.Model], object], complaint: str, repository: Path, store: Store
    ) -> None:
        self.change(repository, edit)
        with pytest.raises(BackendError, match=complaint):
            store.get(str(repository))

    @pytest.mark.parametrize(
        ("sizes", "complaint"),
        [
            ((1, 1, 96), "takes 64 tokens at once and has logits of the last one only, which may be padding"),
            ((1, 96), "takes 64 tokens at once and has logits of the last one only, which may be padding"),
            ((1, 5, 96), r"has logits of 5 tokens for input_ids \(1, 64\), attention_mask \(1, 64\)"),
            ((1, 64, None), r"state the size of its vocabulary: its logits have the shape \(1, 64, None\)"),
            ((96,), "state the size of its vocabulary"),
        ],
    )
    def test_logits_of_which_nothing_can_be_made_are_named(
        self, sizes: tuple[int | None, ...], complaint: str, export_as: Export, store: Store, tmp_path: Path
    ) -> None:
        repository = Path(shutil.copytree(export_as("window"), tmp_path / "tiny"))
        self.change(repository, lambda s: shape_logits(s, sizes))
        with pytest.raises(BackendError, match=complaint):
            store.get(str(repository))

    def test_states_beside_a_wanted_token_are_refused(self, repository: Path, store: Store) -> None:
        def add(specification: Model_pb2.Model) -> None:
            wanted = specification.description.input.add(name="output_mask").type.multiArrayType
            wanted.dataType, wanted.shape[:] = INT32, [1]

        self.change(repository, add)
        with pytest.raises(BackendError, match="has states and the input output_mask"):
            store.get(str(repository))

    def test_a_package_that_is_none_is_refused(self, repository: Path, store: Store) -> None:
        path = repository / "model.mlpackage" / DATA / "model.mlmodel"
        path.write_bytes(b"nonsense" * 100)
        with pytest.raises(BackendError, match="cannot be read .*; download it again"):
            store.get(str(repository))
        path.unlink()
        with pytest.raises(BackendError, match="is missing; download the whole package"):
            store.get(str(repository))

    def test_of_several_packages_one_is_named(self, repository: Path, store: Store) -> None:
        shutil.copytree(repository / "model.mlpackage", repository / "other.mlpackage")
        with pytest.raises(UnsupportedCheckpoint, match=r"several Core ML packages.*model.mlpackage, other.mlpackage"):
            store.get(str(repository))
        assert store.get(str(repository / "other.mlpackage")).export == "coreml"

    def test_a_package_without_its_repository_is_refused(self, repository: Path, store: Store, tmp_path: Path) -> None:
        alone = Path(shutil.copytree(repository / "model.mlpackage", tmp_path / "a" / "b" / "model.mlpackage"))
        with pytest.raises(UnsupportedCheckpoint, match=r"has no config.json; download the whole repository"):
            store.get(str(alone))


def array(specification: Model_pb2.Model, place: int) -> Model_pb2.ArrayFeatureType:
    """An input's type."""
    return specification.description.input[place].type.multiArrayType


def shape_logits(specification: Model_pb2.Model, sizes: tuple[int | None, ...]) -> None:
    """Declare the logits in another shape."""
    function = specification.mlProgram.functions["main"]
    (last,) = function.block_specializations[function.opset].operations[-1].outputs
    assert last.name == "logits"
    del last.type.tensorType.dimensions[:]
    for size in sizes:
        dimension = last.type.tensorType.dimensions.add()
        if size:
            dimension.constant.size = size
        else:
            dimension.unknown.variadic = False


def several(kind: Model_pb2.ArrayFeatureType) -> None:
    """Give an input a few sizes instead of a range."""
    kind.enumeratedShapes.shapes.add().shape.extend([1, 4])


def least(kind: Model_pb2.ArrayFeatureType, axis: int) -> None:
    """Let an axis have two elements at least."""
    kind.shapeRange.sizeRanges[axis].lowerBound = 2


def shorten(state: Model_pb2.FeatureDescription) -> None:
    """Let a state have room for fewer tokens."""
    state.type.stateType.arrayType.shape[-2] = 32


def test_where_core_ml_is_a_package_is_loaded_without_trials(
    export_as: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coreml, "missing", lambda: "")
    monkeypatch.setattr(choice, "CORE_ML", "support.coreml_interpreter")
    write(tmp_path, Prebuilt(str(export_as("llama") / "model.mlpackage"), 32))
    backends.prepare("coreml", tmp_path, device="gpu")
    session = coreml.load(tmp_path, device="gpu")
    assert isinstance(session, PrebuiltSession) and session.placement.device == "gpu (not confirmed)"
    assert [path.name for path in tmp_path.iterdir()] == ["foreign.json"]


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is there")
def test_what_core_ml_cannot_compile_is_told(export_as: Export, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="Core ML cannot compile .*model.mlpackage"):
        device.open_export(export_as("llama") / "model.mlpackage", tmp_path, "gpu")


def test_what_an_export_tells_needs_no_runtime(export_as: Export) -> None:
    facts = inspect(Prebuilt(str(export_as("steps") / "model.mlpackage"), 64))
    assert (facts.vocab_size, facts.parameters, facts.capacity) == (96, 33_760, WINDOW)


def test_masks_hide_padding_and_what_comes_later() -> None:
    ones, scores = Array("mask", ((1, 1), (6, 6)), True), Array("mask", ((1, 1), (1, 1), (1, 9), (1, 9)), False)
    tokens = np.array([7, 8])
    assert values(ones, tokens, start=2, count=3, wanted=1).tolist() == [[1, 1, 1, 1, 0, 0]]
    hidden = values(scores, tokens, start=1, count=2, wanted=1)
    assert hidden.dtype == np.float32 and (hidden == [[[[0, 0, MASKED], [0, 0, 0]]]]).all()
