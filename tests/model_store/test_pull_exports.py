"""Repositories that hold only an export are pulled, verified, and run in place as `import` would have them."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

import backends
from model_store import Store, StoreError, UnsupportedCheckpoint
from model_store.hub import pull
from model_store.hub.pull import Plan
from model_store.hub.web import Site
from model_store.upkeep import copies
from support.arrays import near
from support.checkpoints import HERE, ROOT, Run
from support.loopback_hub import LoopbackHub
from support.pulls import ORG, QUICK

EXPORTS, GOLDEN = ROOT / "tests" / "golden_exports", ROOT / "tests" / "golden" / "llama" / "golden.npz"
KINDS = {"onnx": "onnx/model.onnx", "openvino": "openvino_model.xml"}


@pytest.fixture(params=[kind for kind in sorted(KINDS) if kind in HERE])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def export(kind: str, tmp_path: Path) -> Path:
    """A repository with an export, a tokenizer, and files that nobody needs."""
    folder = Path(shutil.copytree(EXPORTS / kind, tmp_path / f"tiny-{kind}"))
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(folder / "tokenizer.json"))
    for name in "openvino_tokenizer.xml", "openvino_tokenizer.bin", "README.md":
        (folder / name).write_text("not the model")
    return folder


@pytest.fixture
def loopback(export: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        hub.publish(ORG, export)
        yield hub


@pytest.fixture
def planned(store: Store, loopback: LoopbackHub) -> Callable[..., Plan]:
    def plan(name: str = ORG, precision: str | None = None) -> Plan:
        return pull.plan(store.roots, name, site=Site(loopback.url), precision=precision, patience=QUICK)

    return plan


@pytest.fixture
def pulling(store: Store, planned: Callable[..., Plan]) -> Callable[[], Path]:
    return lambda: planned().fetch(on_transfer=lambda now: None, patience=QUICK)


def test_the_plan_names_the_graph_and_what_it_takes(planned: Callable[..., Plan], kind: str, export: Path) -> None:
    plan = planned()
    names = {file.name for file in plan.files}
    assert plan.graph == KINDS[kind] and {plan.graph, "config.json", "tokenizer.json"} <= names
    assert not any("openvino_tokenizer" in name for name in names)
    assert (plan.precision, plan.model.export, plan.lowered) == ("exported", kind, 0)
    assert plan.memory_needed > plan.model.size > 0 and plan.tokens_per_second > 0
    assert plan.model.context_length == json.loads((export / "config.json").read_text())["max_position_embeddings"]


def test_what_was_pulled_runs_where_it_is(
    store: Store, pulling: Callable[[], Path], kind: str, loopback: LoopbackHub, export: Path
) -> None:
    target = pulling()
    model = store.get(ORG)
    assert (model.name, model.export, model.precision, model.folder) == ("org--tiny", kind, "exported", target)
    session = backends.get(kind).load(store.lowered(model, kind).folder, device="cpu")
    arrays = np.load(GOLDEN)
    found = session.forward(arrays["tokens"][:1, :16], last=16)
    assert found == near(arrays["logits"][:1, :16], abs=2e-2)
    asked = len(loopback.requests)
    assert pulling() == target
    assert len(loopback.requests) == asked + 1
    copies.copy(store, "org--tiny", "mine")
    assert store.remove(ORG) >= 0
    copied = store.lowered(store.get("mine"), kind)
    session = backends.get(kind).load(copied.folder, device="cpu")
    assert session.forward(arrays["tokens"][:1, :16], last=16) == near(found, abs=1e-4)
    store.remove("mine")
    assert not list((store.root / "checkpoints").iterdir())


def test_an_interrupted_pull_goes_on(
    store: Store, planned: Callable[..., Plan], pulling: Callable[[], Path], kind: str, loopback: LoopbackHub
) -> None:
    weights = max(planned().files, key=lambda file: file.size)
    loopback.fault(weights.name, cut=1000)
    loopback.fault(weights.name, status=404)
    with pytest.raises(StoreError):
        pulling()
    loopback.faults.clear()
    asked = len(loopback.requests)
    pulling()
    assert [one.range for one in loopback.requests[asked:] if weights.name in one.path] == ["bytes=1000-"]
    assert store.get(ORG).export == kind


def test_a_new_revision_takes_the_place_of_the_old_one(
    store: Store, pulling: Callable[[], Path], kind: str, loopback: LoopbackHub, export: Path
) -> None:
    pulling()
    store.lowered(store.get(ORG), kind)
    config = json.loads((export / "config.json").read_text())
    (export / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 32}))
    loopback.publish(ORG, export)
    pulling()
    model = store.get(ORG)
    assert (model.context_length, model.export, model.variants) == (32, kind, ())


@pytest.mark.parametrize("kind", ["onnx"], indirect=True)
@pytest.mark.parametrize("name", ["model.data", "model.onnx_data", "model.onnx.data"])
def test_weights_beside_a_graph_belong_to_it(
    planned: Callable[..., Plan], loopback: LoopbackHub, export: Path, name: str
) -> None:
    (export / "onnx" / name).write_bytes(bytes(8))
    loopback.publish(ORG, export)
    assert f"onnx/{name}" in {file.name for file in planned().files}


def test_a_precision_cannot_be_asked_for(planned: Callable[..., Plan], kind: str) -> None:
    with pytest.raises(StoreError, match=f"is an export for {kind} and runs as it is, not at int4; leave out"):
        planned(precision="int4")


def test_weights_of_a_checkpoint_go_before_an_export(
    planned: Callable[..., Plan], loopback: LoopbackHub, export: Path
) -> None:
    shutil.copy(ROOT / "tests" / "golden" / "llama" / "model.safetensors", export)
    loopback.publish(ORG, export)
    assert planned().graph is None and not planned().model.export


def test_a_graph_without_its_weights_or_a_context_is_refused(
    planned: Callable[..., Plan], store: Store, loopback: LoopbackHub, export: Path, kind: str
) -> None:
    config = json.loads((export / "config.json").read_text())
    del config["max_position_embeddings"]
    (export / "config.json").write_text(json.dumps(config))
    loopback.publish(ORG, export)
    with pytest.raises(UnsupportedCheckpoint, match="config.json of org/tiny does not state the context length"):
        planned()
    if kind == "openvino":
        (export / "openvino_model.bin").unlink()
        loopback.publish(ORG, export)
        with pytest.raises(UnsupportedCheckpoint, match=r"without openvino_model.bin, its weights"):
            planned()
    assert not store.root.exists()


@pytest.mark.parametrize("kind", ["onnx"], indirect=True)
def test_of_several_graphs_the_usual_one_is_taken_or_none(
    planned: Callable[..., Plan], loopback: LoopbackHub, export: Path
) -> None:
    shutil.copy(export / "onnx" / "model.onnx", export / "onnx" / "model_q4.onnx")
    loopback.publish(ORG, export)
    assert planned().graph == "onnx/model.onnx"
    (export / "onnx" / "model.onnx").rename(export / "onnx" / "model_fp16.onnx")
    loopback.publish(ORG, export)
    with pytest.raises(UnsupportedCheckpoint, match=r"several ONNX exports \(onnx/model_fp16.onnx, onnx/model_q4.onnx"):
        planned()


def test_a_manifest_that_names_another_graph_is_refused(store: Store, pulling: Callable[[], Path]) -> None:
    manifest = pulling() / "pull.json"
    for graph in "../../evil.onnx", "config.onnx":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "graph": graph}))
        with pytest.raises(StoreError, match="was altered"):
            copies.copy(store, "org--tiny", "mine")


def test_the_command_pulls_and_runs_an_export(
    chatapp: Run, loopback: LoopbackHub, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", loopback.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    monkeypatch.setenv("CHATAPP_BACKEND", kind)
    done = chatapp("pull", ORG)
    assert done.returncode == 0, done.stderr
    assert f"exported for {kind}" in done.stdout and f"is ready, on {kind} cpu exported" in done.stdout
    assert chatapp("run", ORG, "a", "--max-tokens", "3").returncode == 0
