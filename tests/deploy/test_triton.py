"""The target triton: graphs, configurations, and the models of a repository, which a stand-in for the server asks."""

import ast
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from chatapp.deploy import exporting
from chatapp.deploy.reference import open_reference
from chatapp.deploy.triton import asking, stand_in, target
from chatapp.deploy.triton.session import RemoteSession
from model_store import Store, StoredModel
from model_store.exports import ExportError, Source
from model_store.exports import triton as repository
from support.checkpoints import MakeCheckpoint
from support.golden_logits import TOLERANCE
from support.golden_logits import golden as golden_values
from support.golden_models import Make

CASES = ("gptj", "gpt_bigcode", "bloom", "mistral", "gemma2", "gemma3n_text", "gemma4_text", "gemma4_text-k_eq_v")
"""Turned and learnt positions, one head for all, slopes, windows and soft caps."""


def source_of(model: StoredModel) -> Source:
    return Source(model, model.folder / "tokenizer.json")


def write_graph(model: StoredModel, folder: Path, options: repository.Options) -> Path:
    folder.mkdir()
    repository.write(source_of(model), folder, options)
    return folder


@pytest.fixture(scope="module")
def exported(lasting_checkpoint: MakeCheckpoint) -> tuple[Source, Path]:
    """A tiny model that chats, and its repository."""
    folder = lasting_checkpoint(chats=True)
    source = exporting.open_source(Store(folder.parent / "models"), str(folder))
    exporting.export(source, exporting.get("triton"), folder.parent / "out", repository.Options())
    return source, folder.parent / "out"


@pytest.fixture(scope="module")
def server(exported: tuple[Source, Path]) -> Iterator[asking.Server]:
    """The repository, loaded."""
    with asking.serving(exported[1]) as opened:
        yield opened


@pytest.mark.parametrize("decoder", repository.RUNTIMES)
@pytest.mark.parametrize("case", CASES)
def test_the_graph_computes_what_transformers_does(golden: Make, tmp_path: Path, case: str, decoder: str) -> None:
    model, options = golden(case), repository.Options(decoder)
    version = write_graph(model, tmp_path / "out", options) / "language_model" / "1"
    run = stand_in.load_onnx(version) if decoder == "onnx" else stand_in.load_openvino(version)
    facts = target.facts_of(source_of(model), options)
    session = RemoteSession(facts, lambda feeds, names: [run(feeds)[name] for name in names])
    tokens, logits = golden_values(case)
    np.testing.assert_allclose(session.forward(tokens[:, :9], last=4), logits[:, 5:9], atol=TOLERANCE)
    session.forward(tokens[:, 9:12])
    session.rewind(9)
    session.reorder([2, 0, 1])
    rows = [2, 0, 1]
    for i in range(9, 24):
        found = session.forward(tokens[rows, i : i + 1])[:, 0]
        np.testing.assert_allclose(found, logits[rows, i], atol=TOLERANCE)


def test_the_onnx_graph_has_operations_of_onnx_alone(golden: Make, tmp_path: Path) -> None:
    path = write_graph(golden("llama"), tmp_path / "out", repository.Options()) / "language_model" / "1" / "model.onnx"
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    assert model.ir_version == 10  # the newest of ONNX Runtime 1.19
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 21)]
    assert {node.domain for node in graph.node} == {""}
    known = onnx.defs.get_all_schemas_with_history()
    assert {node.op_type for node in graph.node} <= {schema.name for schema in known if schema.domain == ""}


def test_configurations_name_the_tensors_and_steps(golden: Make, tmp_path: Path) -> None:
    folder = write_graph(golden("gpt2"), tmp_path / "out", repository.Options(streams=3))
    configs = {path.parent.name: stand_in.parse(path.read_text()) for path in folder.glob("*/config.pbtxt")}
    assert configs.keys() == {"language_model", "encoder", "decoder", "ensemble_model", "chat"}
    assert all(config["name"] == [name] for name, config in configs.items())
    graph = configs["language_model"]
    assert graph["platform"] == ["onnxruntime_onnx"]
    shapes = {one["name"][0]: (one["data_type"][0], one["dims"]) for one in graph["input"]}
    assert shapes["input_ids"] == ("TYPE_INT64", [-1, -1])
    assert shapes["past_key_values.1.value"] == ("TYPE_FP32", [-1, 2, -1, 16])
    steps = configs["ensemble_model"]["ensemble_scheduling"][0]["step"]
    assert [step["model_name"] for step in steps] == [["encoder"], ["language_model"], ["decoder"]]
    assert configs["chat"]["model_transaction_policy"] == [{"decoupled": [True]}]
    assert configs["chat"]["parameters"] == [{"key": ["streams"], "value": [{"string_value": ["3"]}]}]


@pytest.mark.parametrize("text", ['name: "x" }', "name: $", 'name: "x', 'a { name: "x"', "a [ 1, 2"])
def test_what_is_no_configuration_is_not_taken_for_one(text: str) -> None:
    with pytest.raises((ValueError, StopIteration)):
        stand_in.parse(text)


@pytest.mark.parametrize(("decoder", "chats"), [("onnx", True), ("openvino", False)])
def test_a_repository_answers_as_we_do(
    store: Store, checkpoint: MakeCheckpoint, tmp_path: Path, chats: bool, decoder: str
) -> None:
    source, options = exporting.open_source(store, str(checkpoint(chats=chats))), repository.Options(decoder)
    exporting.export(source, exporting.get("triton"), tmp_path / "out", options)
    found = exporting.check(source, exporting.get("triton"), tmp_path / "out", options)
    assert len(found) == 4
    assert all(finding.passed for finding in found), found


def test_rounded_weights_write_what_their_own_graph_finds_likeliest(store: Store, tmp_path: Path) -> None:
    """Of the built-in model the runtime's rounding of activations decides between words about as likely."""
    source, options = exporting.open_source(store, "builtin"), repository.Options(precision="int8")
    exporting.export(source, exporting.get("triton"), tmp_path / "out", options)
    found = exporting.check(source, exporting.get("triton"), tmp_path / "out", options)
    assert all(finding.passed for finding in found), found


def test_a_repository_of_another_model_fails_its_check(
    exported: tuple[Source, Path], store: Store, checkpoint: MakeCheckpoint
) -> None:
    other = exporting.open_source(store, str(checkpoint("other", chats=False)))
    findings = asking.ask(exported[1], open_reference(other, "f32"))
    assert not all(finding.passed for finding in findings)


def test_chat_takes_messages_options_and_streams(server: asking.Server) -> None:
    def ask(**inputs: list[Any]) -> str:
        return asking.join(server.ask("chat", **inputs, seed=[1], max_tokens=[8]))

    user = {"role": "user", "content": "Why?"}
    alone = ask(text_input=["Why?"])
    assert alone == ask(messages=[json.dumps([user])])
    assert alone != ask(messages=[json.dumps([{"role": "system", "content": "x"}, user])])
    assert ask(text_input=["Why?"], temperature=[0.0]) == ask(text_input=["Why?"], options=['{"temperature": 0}'])
    assert ask(text_input=["Why?"], stop=[alone[3:5]]) == alone[:3]
    first = ask(text_input=["Why?"], options=['{"logit_bias": {"40": 100}, "temperature": 0}'])
    assert len(set(first)) == 1
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}, "required": ["a"]}
    assert ask(text_input=["Why?"], options=[json.dumps({"json_schema": schema})]).startswith('{"a"')
    parts = server.ask("chat", text_input=["Why?"], seed=[1], max_tokens=[8], stream=[True])
    assert asking.join(parts) == alone
    assert [part["finish_reason"] for part in parts] == [[""]] * (len(parts) - 1) + [["length"]]
    assert json.loads(parts[-1]["usage"][0])["completion_tokens"] == 8


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "the prompt is empty; send text_input or messages"),
        ({"text_input": [""]}, "the prompt is empty"),
        ({"text_input": ["x"], "temperature": [1000.0]}, "temperature must be 0"),
        ({"text_input": ["x"], "options": ['{"temprature": 1}']}, "unknown option 'temprature'"),
        ({"text_input": ["x"], "options": ["["]}, "options must be a JSON object"),
        ({"text_input": ["x"], "options": ['{"n": 2}']}, "unknown option 'n'"),
        ({"messages": ["{"]}, "messages must be JSON such as"),
        ({"messages": ['[{"role": "robot", "content": "x"}]']}, "messages have a role, one of system, user, assistant"),
        ({"messages": ["[]"], "text_input": ["x" * 9000]}, "not both"),
        ({"text_input": ["word " * 9000]}, "tokens"),
    ],
)
def test_what_cannot_be_answered_is_an_error_by_name(
    server: asking.Server, inputs: dict[str, list[Any]], said: str
) -> None:
    with pytest.raises(ExportError, match=said):
        server.ask("chat", **inputs)


def test_tensors_that_are_not_as_configured_are_refused(server: asking.Server) -> None:
    with pytest.raises(ExportError, match="encoder has .*'TEXT'.* in its config.pbtxt, not"):
        server.ask("encoder")
    with pytest.raises(ExportError, match=r"encoder's TEXT is object \(2,\)"):
        server.ask("encoder", TEXT=["one", "two"])


def test_a_repository_that_lacks_a_module_says_so(exported: tuple[Source, Path], tmp_path: Path) -> None:
    copied = shutil.copytree(exported[1], tmp_path / "copied")
    for path in copied.glob("*/1/modules/chatapp/generation/turn.py"):
        path.unlink()
    with asking.serving(copied) as server, pytest.raises(ExportError, match=r"could not be loaded: .*turn"):
        server.ask("encoder", TEXT=["one"])


def test_what_runs_on_the_server_is_written_for_pythons_of_its_containers(exported: tuple[Source, Path]) -> None:
    modules = sorted((exported[1] / "chat").rglob("*.py"))
    assert len(modules) > 60
    for path in modules:
        ast.parse(path.read_text("utf-8"), feature_version=(3, 10))
        assert "import Self" not in path.read_text("utf-8").replace("    from typing import Self", "")


def test_what_the_target_cannot_have_is_refused_by_name(golden: Make) -> None:
    with pytest.raises(ExportError, match=r"an encoder-decoder \(t5\): the target triton has decoders only"):
        target.refuse(source_of(golden("t5")), repository.Options())
    with pytest.raises(ExportError, match="longrope"):
        target.refuse(source_of(golden("phi3-longrope")), repository.Options())


def test_what_is_not_at_hand_is_named_before_any_work(
    exported: tuple[Source, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(ExportError, match="openvino is not installed"):
        patch.setitem(sys.modules, "openvino", None)
        target.refuse(exported[0], repository.Options("openvino"))
    with (
        monkeypatch.context() as patch,
        pytest.raises(ExportError, match="this build of chatapp has no Python modules"),
    ):
        patch.setattr(sys, "frozen", True, raising=False)
        target.refuse(exported[0], repository.Options())
