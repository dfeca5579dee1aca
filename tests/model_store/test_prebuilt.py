"""Exports of others, ONNX with caches and stateful OpenVINO, against the logits of the model they were made of."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx import helper
from tokenizers import Tokenizer, models

import backends
from backends import BackendError, Session
from backends.openvino.prebuilt import PrebuiltSession
from backends.prebuilt import Prebuilt, write
from chatapp.placement import measuring, selection
from chatapp.placement.selection import PlacementOptions
from model_store import Store, StoreError, UnsupportedCheckpoint, imports
from model_store.convert import open_checkpoint
from model_store.exports import Source
from model_store.exports import onnx as onnx_target
from support.arrays import near
from support.checkpoints import Run
from support.golden_models import Make

TESTS = Path(__file__).parents[1]
GOLDEN, EXPORTS = TESTS / "golden" / "llama" / "golden.npz", TESTS / "golden_exports"
KINDS = {"onnx": ("onnx/model.onnx", 1e-4), "openvino": ("openvino_model.xml", 2e-2)}
"""The graph, and the tolerance: OpenVINO's caches have 16 bits."""


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def export(kind: str, tmp_path: Path) -> Path:
    """A repository with an export and a tokenizer."""
    folder = Path(shutil.copytree(EXPORTS / kind, tmp_path / f"tiny-{kind}"))
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(folder / "tokenizer.json"))
    return folder


class TestLogits:
    @pytest.fixture
    def session(self, kind: str, tmp_path: Path) -> Session:
        write(tmp_path, Prebuilt(str(EXPORTS / kind / KINDS[kind][0]), 64))
        return backends.get(kind).load(tmp_path, device="cpu")

    def test_prefill_steps_rows_and_rewinding(self, kind: str, session: Session) -> None:
        arrays, tolerance = np.load(GOLDEN), KINDS[kind][1]
        tokens, logits = arrays["tokens"], arrays["logits"]
        assert session.forward(tokens[:1, :16], last=16) == near(logits[:1, :16], abs=tolerance)
        assert session.forward(tokens[:1, 16:17]) == near(logits[:1, 16:17], abs=tolerance)
        session.rewind(0)
        assert session.forward(tokens[:, :16], last=2) == near(logits[:, 14:16], abs=tolerance)
        session.forward(np.roll(tokens[:, 16:20], 2, axis=1))
        session.rewind(11)
        assert session.forward(tokens[:, 11:15], last=4) == near(logits[:, 11:15], abs=tolerance)
        assert (session.length, session.batch, session.context_length) == (15, 3, 64)

    def test_reordering(self, kind: str, session: Session) -> None:
        arrays, tolerance = np.load(GOLDEN), KINDS[kind][1]
        tokens, logits = arrays["tokens"], arrays["logits"]
        session.forward(tokens[2:, :12])
        session.reorder([0, 0])
        for i in range(12, 16):
            steps = session.forward(tokens[[2, 1], i : i + 1])
        assert steps[0] == near(logits[2, 15:16], abs=tolerance)
        session.reorder([1, 0, 0])
        steps = session.forward(tokens[[2, 2, 2], 16:17])
        assert steps[1:] == near(logits[[2, 2], 16:17], abs=tolerance)
        session.reorder([2])
        assert session.forward(tokens[2:, 17:18]) == near(logits[2:, 17:18], abs=tolerance)


def test_a_processor_computes_an_export_in_full(tmp_path: Path) -> None:
    write(tmp_path, Prebuilt(str(EXPORTS / "openvino" / KINDS["openvino"][0]), 64))
    session = backends.get("openvino").load(tmp_path, device="cpu")
    assert isinstance(session, PrebuiltSession)
    compiled = session.request.get_compiled_model()
    assert compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() == "f32"
    assert compiled.get_property("KV_CACHE_PRECISION").get_type_name() == "f16"


def test_an_export_is_linked_or_copied_and_runs_on_its_backend_only(kind: str, export: Path, store: Store) -> None:
    model = store.get(str(export))
    assert (model.name, model.export, model.precision, model.family) == (f"tiny-{kind}", kind, "exported", "llama")
    assert model.parameters == pytest.approx(74_944, rel=0.02)
    variant = store.lowered(model, kind)
    assert store.lowered(store.get(str(export)), kind).seconds == 0
    assert backends.get(kind).load(variant.folder, device="cpu").placement.precision == "exported"
    with pytest.raises(StoreError, match=f"is an export for {kind} and runs as it is"):
        store.lowered(model, kind, "int8")
    with pytest.raises(UnsupportedCheckpoint, match="is an export and has no reference"):
        open_checkpoint(model.folder)
    copied = imports.carry_out(store, imports.plan(store, str(export), name="mine", copy=True))
    shutil.rmtree(export)
    assert store.lowered(store.get("mine"), kind).folder != variant.folder and copied.export == kind
    with pytest.raises(StoreError, match=r"put it back, or remove the model"):
        store.get(f"tiny-{kind}")


def test_our_own_export_is_copied_with_its_weights(golden: Make, store: Store, tmp_path: Path) -> None:
    source = golden("gpt2")
    (tmp_path / "out").mkdir()
    onnx_target.write(Source(source, source.folder / "tokenizer.json"), tmp_path / "out", onnx_target.Options("f32"))
    plan = imports.plan(store, str(tmp_path / "out"), name="mine", copy=True)
    copied = imports.carry_out(store, plan)
    shutil.rmtree(tmp_path / "out")
    assert copied.size > 4 * copied.parameters * 0.9
    assert store.lowered(store.get("mine"), "onnx").folder.is_dir()


def test_the_command_runs_an_export(export: Path, kind: str, chatapp: Run) -> None:
    done = chatapp("run", str(export), "a", "--max-tokens", "3", "--backend", kind)
    assert done.returncode == 0 and not done.stderr, done.stderr
    shown = chatapp("show", f"tiny-{kind}").stdout
    assert f"exported (its maker chose it: an export runs as it is, on {kind} only)" in shown
    assert "not verified; an export has no reference" in shown and "bits a weight" not in shown
    assert f"{kind} exported" in shown and "(the export itself)" in shown and " B)" not in shown


@pytest.mark.parametrize("kind", ["onnx"], indirect=True)
def test_of_the_ways_to_run_an_export_only_its_own_is_left(export: Path, chatapp: Run) -> None:
    found = json.loads(chatapp("why", str(export), "--json").stdout)
    assert [one["placement"]["backend"] for one in found["ranking"]] == ["onnx"]
    assert found["ranking"][0]["verdict"] == "nothing to compare with"
    assert "is an export for onnx" in found["rejected"][0]["failure"]
    assert "has no reference to compare its logits with" in chatapp("verify", "tiny-onnx").stderr
    done = chatapp("why", "tiny-onnx", "--backend", "openvino")
    assert (done.returncode, done.stdout.count("not chosen")) == (1, 1)


@pytest.mark.parametrize("kind", ["onnx"], indirect=True)
def test_what_is_expected_of_an_export_is_its_own_backend(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "order_backends", lambda: ["openvino", "onnx"])
    store = Store(tmp_path / "store")
    model = store.get(str(export))
    assert str(selection.expect(store, model, PlacementOptions())) == "onnx cpu exported"
    assert {way.backend for way in measuring.list_unmeasured(store, model, PlacementOptions())} == {"onnx"}


@pytest.mark.parametrize("kind", ["onnx"], indirect=True)
class TestOnnx:
    def change(self, export: Path, name: str, change: dict[str, str]) -> None:
        """Give the graph's inputs and outputs other names."""
        graph = onnx.load(export / "onnx" / "model.onnx")
        for one in [*graph.graph.input, *graph.graph.output]:
            one.name = change.get(one.name, one.name)
        for node in graph.graph.node:
            node.input[:] = [change.get(one, one) for one in node.input]
            node.output[:] = [change.get(one, one) for one in node.output]
        onnx.save(graph, export / "onnx" / name)

    def test_a_graph_without_caches_is_refused(self, export: Path, store: Store) -> None:
        x = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["B", "T"])
        y = helper.make_tensor_value_info("logits", onnx.TensorProto.INT64, ["B", "T"])
        graph = helper.make_graph([helper.make_node("Identity", ["input_ids"], ["logits"])], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, export / "onnx" / "model.onnx")
        with pytest.raises(BackendError, match="has no caches.*text-generation-with-past"):
            store.get(str(export))

    def test_an_input_that_is_not_known_is_refused_by_name(self, export: Path, store: Store) -> None:
        self.change(export, "model.onnx", {"position_ids": "pixel_values"})
        with pytest.raises(BackendError, match="needs the input pixel_values, which is unknown"):
            store.get(str(export))

    def test_of_several_graphs_one_is_named(self, export: Path, store: Store) -> None:
        self.change(export, "model_q4.onnx", {})
        assert store.get(str(export / "onnx" / "model_q4.onnx")).export == "onnx"
        (export / "onnx" / "model.onnx").rename(export / "onnx" / "model_fp16.onnx")
        with pytest.raises(UnsupportedCheckpoint, match="several ONNX exports.*model_fp16.onnx, onnx/model_q4.onnx"):
            store.get(str(export))

    def test_a_graph_that_is_none_is_refused(self, export: Path, store: Store) -> None:
        (export / "onnx" / "model.onnx").write_bytes(b"nonsense" * 100)
        with pytest.raises(BackendError, match="ONNX Runtime cannot load"):
            store.get(str(export))

    @pytest.mark.parametrize("length", [None, "64", -1, True])
    def test_a_context_without_a_length_is_refused(self, length: object, export: Path, store: Store) -> None:
        config = json.loads((export / "config.json").read_text())
        (export / "config.json").write_text(json.dumps({**config, "max_position_embeddings": length}))
        with pytest.raises(UnsupportedCheckpoint, match="does not state the context length"):
            store.get(str(export))

    def test_an_export_without_its_repository_is_refused(self, export: Path, store: Store, tmp_path: Path) -> None:
        alone = tmp_path / "a" / "b" / "model.onnx"
        alone.parent.mkdir(parents=True)
        shutil.copy(export / "onnx" / "model.onnx", alone)
        with pytest.raises(UnsupportedCheckpoint, match="has no config.json; download the whole repository"):
            store.get(str(alone))


@pytest.mark.parametrize("kind", ["openvino"], indirect=True)
def test_an_openvino_model_without_states_is_refused(export: Path, store: Store) -> None:
    stateless = openvino.Core().read_model(EXPORTS / "onnx" / "onnx" / "model.onnx")
    openvino.save_model(stateless, export / "openvino_model.xml")
    with pytest.raises(BackendError, match="has no input beam_idx.*export with a cache"):
        store.get(str(export))


@pytest.mark.parametrize("kind", ["openvino"], indirect=True)
def test_a_damaged_openvino_model_is_refused_with_the_reason(export: Path, store: Store) -> None:
    graph, weights = export / "openvino_model.xml", export / "openvino_model.bin"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(BackendError, match=r"OpenVINO cannot read .*openvino_model.xml: Incorrect weights in bin file"):
        store.get(str(export))
    graph.write_text(graph.read_text()[:3000])
    with pytest.raises(BackendError, match=r"OpenVINO cannot read .*openvino_model.xml: Error parsing element"):
        store.get(str(export))
