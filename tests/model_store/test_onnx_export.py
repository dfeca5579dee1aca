"""The target onnx: graphs as onnxruntime-genai's builder makes them, and what genai_config.json says of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from backends.onnx.prebuilt import PrebuiltSession
from backends.prebuilt import Prebuilt
from model_store import Store, StoredModel
from model_store.exports import ExportError, Source
from model_store.exports import onnx as target
from support import golden_logits
from support.golden_models import Make
from support.respelled_checkpoints import configure

CASES = (
    "apertus", "bloom", "gemma2", "gpt2", "gpt_bigcode", "gptj", "hunyuan_v1_dense", "llama", "minicpm3", "mistral",
    "olmo", "olmo2", "qwen3", "gpt_oss", "deepseek_v3",
)  # fmt: skip
"""Learnt and turned positions, slopes, shared heads, windows, capped scores, all norms, what is cut, experts."""


def source_of(model: StoredModel) -> Source:
    return Source(model, model.folder / "tokenizer.json")


def write(model: StoredModel, folder: Path, precision: str = "f32") -> Path:
    folder.mkdir()
    options = target.Options(precision)
    target.refuse(source_of(model), options)
    target.write(source_of(model), folder, options)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_the_graph_computes_what_transformers_does(golden: Make, tmp_path: Path, case: str) -> None:
    folder = write(golden(case), tmp_path / "out")
    session = PrebuiltSession(Prebuilt(str(folder / "model.onnx"), 64))
    tokens, logits = golden_logits.golden(case)
    found = session.forward(tokens[:1, :9], last=9)
    np.testing.assert_allclose(found, logits[:1, :9], atol=golden_logits.TOLERANCE)
    for start, end in ((9, 13), *((i, i + 1) for i in range(13, 24))):
        found = session.forward(tokens[:1, start:end], last=end - start)
        np.testing.assert_allclose(found, logits[:1, start:end], atol=golden_logits.TOLERANCE)


def test_caches_can_be_shared_by_past_and_present(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("llama"), tmp_path / "out")
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokens, logits = golden_logits.golden("llama")
    wrap = onnxruntime.OrtValue.ortvalue_from_numpy
    caches = {
        one.name: wrap(np.zeros((1, one.shape[1], 32, one.shape[3]), np.float32))
        for one in session.get_inputs()
        if one.name.startswith("past_key_values.")
    }
    for start, end in (0, 9), (9, 10), (10, 11):
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", tokens[:1, start:end])
        binding.bind_cpu_input("attention_mask", np.ones((1, end), np.int64))
        for name, cache in caches.items():
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), cache)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        found = binding.get_outputs()[-1].numpy()
        np.testing.assert_allclose(found, logits[:1, start:end], atol=golden_logits.TOLERANCE)


@pytest.mark.parametrize(("precision", "kinds"), [("int8", {"MatMulIntegerToFloat"}), ("int4", {"MatMulNBits"})])
def test_matrices_are_rounded(golden: Make, tmp_path: Path, precision: str, kinds: set[str]) -> None:
    model = golden("llama")
    folder = write(model, tmp_path / "out", precision)
    nodes = onnx.load(folder / "model.onnx", load_external_data=False).graph.node
    assert kinds <= {node.op_type for node in nodes} and "MatMul" not in {node.op_type for node in nodes}
    assert [one.passed for one in target.check(source_of(model), folder, target.Options(precision))] == [True]


def test_rounded_experts_are_compared_where_rounding_chooses_alike(golden: Make, store: Store, tmp_path: Path) -> None:
    model, options = golden("glm4_moe"), target.Options("int8")
    folder = write(model, tmp_path / "out", "int8")
    [finding] = target.check(source_of(model), folder, options)
    assert finding.passed and "in 50% of the tokens (1e-01 allowed)" in finding.figure
    configure(model.folder, routed_scaling_factor=0.1)
    assert [one.passed for one in target.check(source_of(store.get(str(model.folder))), folder, options)] == [False]


def test_a_check_finds_another_model(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("llama-yarn"), tmp_path / "out")
    found = target.check(source_of(golden("llama")), folder, target.Options("f32"))
    assert [one.passed for one in found] == [False]


@pytest.mark.parametrize(("case", "kind"), [("llama", "llama"), ("gpt_bigcode", "decoder"), ("bloom", "decoder")])
def test_the_configuration_names_what_the_graph_has(golden: Make, tmp_path: Path, case: str, kind: str) -> None:
    model = golden(case)
    folder = write(model, tmp_path / "out")
    settings = json.loads((folder / "genai_config.json").read_text())["model"]
    assert settings["type"] == kind
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    layers = range(settings["decoder"]["num_hidden_layers"])
    named = {
        part: {name % i if "%d" in name else name for name in settings["decoder"][part].values() for i in layers}
        for part in ("inputs", "outputs")
    }
    assert named["outputs"] == {one.name for one in graph.output}
    assert named["inputs"] - {"position_ids"} == {one.name for one in graph.input} - {"position_ids"}
    sizes = {one.name: [x.dim_param or x.dim_value for x in one.type.tensor_type.shape.dim] for one in graph.input}
    assert sizes["past_key_values.0.key"][1::2] == [
        settings["decoder"]["num_key_value_heads"],
        settings["decoder"]["head_size"],
    ]
    assert {"config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}


def test_all_tokens_that_end_a_reply_are_named(golden: Make) -> None:
    model = golden("llama")

    def put(name: str, content: dict[str, Any]) -> None:  # Any: JSON
        (model.folder / name).write_text(json.dumps(content))

    put("generation_config.json", {"eos_token_id": [7, 9]})
    put("tokenizer_config.json", {"eos_token": {"content": "</s>"}})
    put("tokenizer.json", {"model": {"vocab": [["a", 0.0]]}, "added_tokens": [{"content": "</s>", "id": 5}]})
    assert target.end_tokens(source_of(model))[:3] == [5, 7, 9]
    assert max(target.end_tokens(source_of(model))) < 96  # its config.json has one of the whole vocabulary
    assert target.configuration(source_of(model))["model"]["eos_token_id"][:3] == [5, 7, 9]


@pytest.mark.parametrize(
    ("case", "precision", "said"),
    [
        ("phi3-longrope", "f32", "treats positions of long texts differently"),
        ("llama", "mxfp4", "llama is mxfp4, which this target does not support; choose from f32, int8, int4"),
        ("t5", "f32", "an encoder-decoder .t5."),
        ("gemma4_text", "f32", "gemma4_text has layers with other heads than the first, or without keys of their own"),
    ],
)
def test_what_cannot_be_is_refused_by_name(golden: Make, case: str, precision: str, said: str) -> None:
    with pytest.raises(ExportError, match=said):
        target.refuse(source_of(golden(case)), target.Options(precision))
