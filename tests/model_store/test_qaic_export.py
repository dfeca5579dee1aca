"""The target qaic: what its graphs compute in the device's shapes, and what the compiler is told."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from backends import BackendError
from backends.onnx import qaic, qaic_simulation
from model_store import StoredModel
from model_store.exports import ExportError, Source
from model_store.exports import qaic as target
from support import golden_logits
from support.golden_models import Make

PROMPT, CONTEXT = 8, 32
CASES = (
    "gpt_bigcode", "gpt_bigcode-multi_head", "gpt2", "gptj", "llama", "falcon", "gemma2", "gemma3_text", "mistral",
    "olmo2", "hunyuan_v1_dense", "apertus", "minicpm3", "phi3", "qwen3",
)  # fmt: skip
"""One head for all and several; learnt and turned positions; windows, capped scores, norms of heads."""


def options(**given: Any) -> target.Options:  # Any: of an option's own type
    return target.Options(**{"prompt_len": PROMPT, "ctx_len": CONTEXT, **given})


def source_of(model: StoredModel) -> Source:
    return Source(model, model.folder / "tokenizer.json")


def write(model: StoredModel, folder: Path, **given: Any) -> Path:  # Any: as above
    folder.mkdir()
    target.write(source_of(model), folder, options(**given))
    return folder


def run(folder: Path, scratch: Path, tokens: np.ndarray, rounding: str = "") -> np.ndarray:
    """The logits after a prompt of 13 tokens, which two pieces hold, and after each of the others."""
    scratch.mkdir(exist_ok=True)
    return target.run(folder, scratch, options(), rounding, tokens[:13], tokens[13:])


@pytest.mark.parametrize("case", CASES)
def test_prompts_in_pieces_and_steps_have_the_logits_that_transformers_gives(
    golden: Make, tmp_path: Path, case: str
) -> None:
    folder = write(golden(case), tmp_path / "out")
    qaic_simulation.verify(folder / "model.onnx", target.specializations(options()))
    tokens, logits = golden_logits.golden(case)
    found = run(folder, tmp_path / "scratch", tokens[0])
    np.testing.assert_allclose(found, logits[0, 12:], atol=golden_logits.TOLERANCE)


@pytest.mark.parametrize("case", ["gpt_bigcode", "gptj", "llama"])
def test_as_the_device_rounds_logits_are_near(golden: Make, tmp_path: Path, case: str) -> None:
    folder = write(golden(case), tmp_path / "out")
    tokens, logits = golden_logits.golden(case)
    expected, off = logits[0, 12:], dict[str, float]()
    for name in target.FORMATS:
        found = run(folder, tmp_path / "scratch", tokens[0], name)
        off[name] = float(np.sqrt(np.mean((found - expected) ** 2)) / expected.std())
        assert off[name] < target.ALLOWED[name]
    assert 1e-4 < off["fp16"] < off["mxint8-kv"] / 2 < off["mxfp6"] / 4  # each rounds more than the one before


def test_a_whole_context_can_be_read(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("gpt2"), tmp_path / "out", ctx_len=24)
    tokens, logits = golden_logits.golden("gpt2")
    for read in 24, 23:
        found = target.run(folder, tmp_path, options(ctx_len=24), "", tokens[0][:read], tokens[0][read:])
        np.testing.assert_allclose(found[-1], logits[0, 23], atol=golden_logits.TOLERANCE)


@pytest.mark.parametrize("case", ["gpt_bigcode", "llama"])
def test_what_was_never_written_to_a_cache_does_not_matter(golden: Make, tmp_path: Path, case: str) -> None:
    folder, scratch = write(golden(case), tmp_path / "out"), tmp_path / "scratch"
    scratch.mkdir()
    qaic_simulation.simulate(folder, scratch, halves=False)
    graph = onnx.load(scratch / "model.onnx", load_external_data=False)
    for one in graph.graph.initializer:
        if one.name == "invalid_index":  # as a device that reads what it need not
            one.CopyFrom(onnx.numpy_helper.from_array(np.array(CONTEXT - 2), one.name))
    onnx.save(graph, scratch / "model.onnx")
    device = qaic_simulation.Device(scratch, PROMPT, CONTEXT)
    device.cache = {name: np.full_like(cache, np.nan) for name, cache in device.cache.items()}
    tokens, logits = golden_logits.golden(case)
    pieces = [device.call(tokens[0][start:end], PROMPT) for start, end in ((0, 8), (8, 13))]
    np.testing.assert_allclose(pieces, logits[0, [7, 12]], atol=golden_logits.TOLERANCE)
    np.testing.assert_allclose(device.append(int(tokens[0, 13])), logits[0, 13], atol=golden_logits.TOLERANCE)


def test_what_is_beyond_float16_shows(golden: Make, tmp_path: Path) -> None:
    model = golden("gpt2")
    folder = write(model, tmp_path / "out")
    graph = onnx.load(folder / "model.onnx", load_external_data=False)
    for one in graph.graph.initializer:
        if one.name == "layers.0.attention_norm.bias":  # as if the publisher's weights made such large sums
            one.CopyFrom(onnx.numpy_helper.from_array(np.full(one.dims, 60_000, np.float32), one.name))
    onnx.save(graph, folder / "model.onnx")
    tokens, _ = golden_logits.golden("gpt2")
    assert np.isfinite(run(folder, tmp_path / "scratch", tokens[0])).all()
    assert not np.isfinite(run(folder, tmp_path / "scratch", tokens[0], "fp16")).all()


def test_weights_beyond_float16_are_brought_into_its_range(golden: Make, tmp_path: Path) -> None:
    decoder, weights = golden_logits.open_golden("llama")
    large = {name: weights[name] for name in weights}
    values = np.array(large["norm"].values)
    values[:2] = 1e6, -1e6
    large["norm"] = replace(large["norm"], values=values, bias=values)
    found = qaic.InRange(large)["norm"]
    for part in found.values, found.bias:
        assert isinstance(part, np.ndarray) and part[:2].tolist() == [65504, -65504]


@pytest.mark.parametrize(
    ("case", "shape"),
    [("gpt_bigcode", ["batch_size", "ctx_len", 16]), ("gpt_bigcode-multi_head", ["batch_size", 2, "ctx_len", 16])],
)
def test_names_and_shapes_are_those_of_their_exporter(
    golden: Make, tmp_path: Path, case: str, shape: list[str | int]
) -> None:
    folder = write(golden(case), tmp_path / "out")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    inputs = {one.name: one.type.tensor_type for one in model.graph.input}
    outputs = {one.name: one.type.tensor_type for one in model.graph.output}
    caches = [f"past_{kind}.{layer}" for layer in range(2) for kind in ("key", "value")]
    assert list(inputs) == ["input_ids", "position_ids", *caches]
    assert list(outputs) == ["logits", *(f"{name}_RetainedState" for name in caches)]
    assert [one.dim_param or one.dim_value for one in inputs["past_key.1"].shape.dim] == shape
    assert inputs["past_key.1"] == outputs["past_key.1_RetainedState"]
    flat = "3D" if len(shape) == 3 else ""
    functions = {(one.domain, one.name) for one in model.functions}
    assert functions == {("com.qualcomm.cloud", f"CtxScatter{flat}"), ("com.qualcomm.cloud", f"CtxGather{flat}")}
    assert {one.domain: one.version for one in model.opset_import} == {"": 17, "com.qualcomm.cloud": 1}


def test_a_size_that_no_specialization_gives_is_found(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("llama"), tmp_path / "out")
    with pytest.raises(BackendError, match="no specialization .* gives a size to 'ctx_len'"):
        qaic_simulation.verify(folder / "model.onnx", [{"batch_size": 1, "seq_len": 8}])


@pytest.mark.parametrize("tool", ["qaic-compile", "qaic-exec"])
def test_the_compiler_is_told_all(golden: Make, tmp_path: Path, tool: str) -> None:
    folder = write(golden("llama"), tmp_path / "out", cores=14, devices=2, format="mxfp6-mxint8-kv")
    tools = tmp_path / "tools"
    tools.mkdir()
    stand_in = tools / tool
    stand_in.write_text(
        '#!/bin/sh\nfor one; do printf "%s\\n" "$one"; done > told\n'
        "for one; do case $one in\n"
        '-aic-binary-dir=*) mkdir -p "${one#*=}"; : > "${one#*=}/programqpc.bin";;\nesac; done\n'
    )
    stand_in.chmod(0o755)
    script = [str(folder / "compile.sh")]
    environment = {**os.environ, "QAIC_TOOLS": str(tools)}
    subprocess.run(script, env=environment, check=True)
    told = (folder / "told").read_text().splitlines()
    program = "qpc/llama-1bs-8pl-32cl-28c-mxfp6-mxint8-kv"
    common = {
        "-aic-hw", "-m=model.onnx", "-retained-state", "-convert-to-fp16", "-aic-num-cores=14", "-mxfp6-matmul",
        "-mdp-load-partition-config=mdp_ts_2.json", "-custom-IO-list-file=custom_io.yaml", f"-aic-binary-dir={program}",
    }  # fmt: skip
    new = {"-aic-hw-version=ai100", "-network-specialization-config=specializations.json"}
    old = {"-aic-hw-version=2.0", "-compile-only", "-network-specialization-config=specializations_flat.json"}
    assert set(told) == common | (new if tool == "qaic-compile" else old)
    assert (folder / program / "programqpc.bin").exists() and (folder / "qpc" / "specializations.json").exists()
    again = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert again.returncode == 1 and "compiled already" in again.stderr


def test_without_a_compiler_the_script_says_where_it_looked(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("llama"), tmp_path / "out")
    environment = {**os.environ, "QAIC_TOOLS": str(tmp_path)}
    done = subprocess.run([folder / "compile.sh"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and f"there is no qaic-compile in {tmp_path}" in done.stderr


def test_what_is_beside_the_graph_says_how_to_compile_it(golden: Make, tmp_path: Path) -> None:
    folder = write(golden("gpt_bigcode"), tmp_path / "out", devices=2, format="mxint8-kv")
    named = json.loads((folder / "specializations.json").read_text())["specializations"]
    flat = json.loads((folder / "specializations_flat.json").read_text())["specializations"]
    assert flat == [
        {"batch_size": "1", "seq_len": "8", "ctx_len": "32"},
        {"batch_size": "1", "seq_len": "1", "ctx_len": "32"},
    ]
    assert named == [{"name": "Prefill", "symbols": flat[0]}, {"name": "Decode", "symbols": flat[1]}]
    states = (folder / "custom_io.yaml").read_text()
    assert states.startswith(" - IOName: past_key.0\n   Precision: mxint8\n\n - IOName: past_key.0_RetainedState\n")
    assert states.count("IOName") == 8
    assert json.loads((folder / "mdp_ts_2.json").read_text()) == {
        "connections": [{"devices": [0, 1], "type": "p2p"}],
        "partitions": [
            {"name": "Partition0", "devices": [{"deviceId": 0, "numCores": 16}, {"deviceId": 1, "numCores": 16}]}
        ],
    }
    assert {"README.md", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    alone = write(golden("gpt2"), tmp_path / "alone", prompt_len=1)
    assert len(json.loads((alone / "specializations.json").read_text())["specializations"]) == 1
    assert not list(alone.glob("mdp*"))


@pytest.mark.parametrize(
    ("case", "given", "said"),
    [
        ("llama", {"ctx_len": 30}, "pieces of 8 tokens .* do not divide a context of 30 .*; 24 would do"),
        ("llama", {"ctx_len": 4}, "a context of 4 tokens .* cannot hold a prompt of 8"),
        ("llama", {"ctx_len": 8000}, "a context of 64 tokens; --ctx-len asks for 8000"),
        ("llama", {"cores": 17}, "--cores is 17, and a device has at most 16"),
        ("llama", {"format": "int4"}, "lacks the format 'int4'; choose from fp16, mxfp6"),
        ("gemma4_text", {}, "the family gemma4_text, which is not known to compile for Cloud AI 100"),
        ("bloom", {}, "the family bloom, which is not known to compile for Cloud AI 100"),
        ("phi3-longrope", {}, "longer than 24 tokens .*; --ctx-len can be at most 24"),
        ("t5", {}, "an encoder-decoder .t5."),
    ],
)
def test_what_cannot_be_is_refused_by_name(golden: Make, case: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ExportError, match=said):
        target.refuse(source_of(golden(case)), options(**given))


def test_long_positions_turn_as_in_short_texts_where_the_context_is_short(golden: Make, tmp_path: Path) -> None:
    model = golden("phi3-longrope")
    wanted = options(ctx_len=24)
    target.refuse(source_of(model), wanted)
    folder = write(model, tmp_path / "out", ctx_len=24)
    tokens, _ = golden_logits.golden("phi3-longrope")
    found = target.run(folder, tmp_path, wanted, "", tokens[0][:10], tokens[0][10:])
    expected = golden_logits.open_case("phi3-longrope", "reference", tmp_path).forward(tokens[:1], last=15)
    np.testing.assert_allclose(found, expected[0], atol=golden_logits.TOLERANCE)


def test_a_check_tells_what_it_found(golden: Make, tmp_path: Path) -> None:
    model = golden("gpt_bigcode")
    folder = write(model, tmp_path / "out", format="mxfp6")
    found = target.check(source_of(model), folder, options(format="mxfp6"))
    assert [one.passed for one in found] == [True] * 3
    assert "of the next tokens alike" in found[2].figure
    other = golden("gpt_bigcode-multi_head")
    wrong = write(other, tmp_path / "other")
    found = target.check(source_of(model), wrong, options())
    assert [one.passed for one in found] == [True, False, False]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []
