"""The target ovms: what the server reads, how it is started, and what openvino-genai writes where it is installed."""

import json
import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from backends.openvino import tokenizers
from chatapp.deploy import exporting, openvino_genai
from chatapp.deploy.triton import stand_in
from model_store import Store
from model_store.exports import ExportError, Source, ovms
from support.checkpoints import CHAT_TEMPLATE, MakeCheckpoint
from support.golden_models import Make

GENAI = find_spec("openvino_genai") is not None and not tokenizers.missing()


def write(source: Source, folder: Path) -> Path:
    folder.mkdir()
    ovms.write(source, folder, ovms.Options("f32"))
    return folder


def test_the_folder_has_what_the_server_reads(store: Store, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    source = exporting.open_source(store, str(checkpoint(chats=True, eos_token_id=[0, 3])))
    folder = write(source, tmp_path / "out")
    [entry] = json.loads((folder / "config.json").read_text())["model_config_list"]
    assert entry == {"config": {"name": "tiny", "base_path": "tiny"}}
    inside = folder / entry["config"]["base_path"]
    assert (inside / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    assert json.loads((inside / "generation_config.json").read_text())["eos_token_id"] == [0, 3]
    assert json.loads((inside / "config.json").read_text())["model_type"] == "llama"
    assert {"openvino_model.xml", "openvino_model.bin", "tokenizer_config.json"} <= {p.name for p in inside.iterdir()}
    assert "/v3/chat/completions" in (folder / "README.md").read_text()


def test_the_graph_names_the_calculator_its_packets_and_the_loop(
    store: Store, checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    folder = write(exporting.open_source(store, str(checkpoint())), tmp_path / "out")
    text = re.sub(r"\[([a-zA-Z./]+)\]", r'"\1"', (folder / "tiny" / "graph.pbtxt").read_text())
    graph = stand_in.parse(text)
    [node] = graph["node"]
    assert node["calculator"] == ["HttpLLMCalculator"]
    assert node["input_side_packet"] == ["LLM_NODE_RESOURCES:llm", "LLM_NODE_EXECUTION_CONTEXTS:llm_ctx"]
    assert node["input_stream_info"] == [{"tag_index": ["LOOPBACK:0"], "back_edge": [True]}]
    [options] = node["node_options"][0].values()
    assert options[0]["models_path"] == ["./"]
    assert options[0]["device"] == ["CPU"]


def test_a_model_without_a_chat_template_has_none_and_is_asked_to_complete(
    store: Store, checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    folder = write(exporting.open_source(store, str(checkpoint())), tmp_path / "out")
    assert not list(folder.rglob("chat_template*"))
    assert "/v3/completions" in (folder / "README.md").read_text()


@pytest.mark.skipif(os.name == "nt", reason="a script of Unix")
def test_the_start_command_serves_this_machine_only(store: Store, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = write(exporting.open_source(store, str(checkpoint())), tmp_path / "out")
    recorder = tmp_path / "bin" / "ovms"
    recorder.parent.mkdir()
    recorder.write_text('#!/bin/sh\necho "$PWD" "$@"\n')
    recorder.chmod(0o755)
    path = f"{recorder.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([folder / "start.sh"], env={"PATH": path, "PORT": "9001"}, capture_output=True, text=True)
    assert done.stdout == f"{folder} --config_path config.json --rest_bind_address 127.0.0.1 --rest_port 9001\n"


def test_what_the_server_cannot_have_is_refused_by_name(golden: Make) -> None:
    for case, said in {
        "t5": "an encoder-decoder .t5.: the target ovms has decoders only",
        "lfm2": "has layers that keep a state .lfm2., which the target ovms cannot have",
        "gemma2": "has a soft cap on its scores",
        "phi3-longrope": "longrope",
    }.items():
        model = golden(case)
        with pytest.raises(ExportError, match=said):
            ovms.refuse(Source(model, model.folder / "tokenizer.json"), ovms.Options())


def test_words_that_the_servers_tokenizers_would_divide_otherwise_are_refused(golden: Make) -> None:
    model = golden("biogpt")
    (model.folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BioGptTokenizer"}')
    with pytest.raises(ExportError, match="divides words by Moses' rules"):
        ovms.refuse(Source(model, model.folder / "tokenizer.json"), ovms.Options())


@pytest.mark.skipif(GENAI, reason="they are installed")
def test_packages_that_are_missing_are_named_before_any_work(golden: Make) -> None:
    model = golden("gptj")
    with pytest.raises(
        ExportError,
        match=r"needs openvino-tokenizers.*; run: pip install openvino-genai openvino-tokenizers transformers",
    ):
        ovms.refuse(Source(model, model.folder / "tokenizer.json"), ovms.Options())


@pytest.mark.skipif(not GENAI, reason="openvino-genai and openvino-tokenizers are not installed")
@pytest.mark.parametrize("chats", [True, False])
def test_openvino_genai_writes_what_we_do(
    store: Store, checkpoint: MakeCheckpoint, tmp_path: Path, chats: bool
) -> None:
    source, target = exporting.open_source(store, str(checkpoint(chats=chats))), exporting.get("ovms")
    exporting.export(source, target, tmp_path / "out", ovms.Options("f32"))
    found = exporting.check(source, target, tmp_path / "out", ovms.Options("f32"))
    assert len(found) == 1 + 2 * len(openvino_genai.PROMPTS) + chats
    assert all(finding.passed for finding in found), found
