"""The target openvino: what its graphs compute, and what OpenVINO finds in them."""

from pathlib import Path

import numpy as np
import openvino
import pytest
from openvino._offline_transformations import paged_attention_transformation

from model_store import StoredModel
from model_store.exports import ExportError, Source
from model_store.exports import openvino as target
from support.golden_logits import TOLERANCE, open_golden
from support.golden_logits import golden as golden_values
from support.golden_models import Make

CASES = (
    "gpt2",
    "gptj",
    "llama",
    "gpt_bigcode",
    "bloom",
    "mistral",
    "gemma3n_text",
    "gemma4_text",
    "gemma4_text-experts",
    "gemma4_text-k_eq_v",
)
"""Learnt and turned positions, shared heads, slopes and windows."""


def source_of(model: StoredModel) -> Source:
    return Source(model, model.folder / "tokenizer.json")


def write(model: StoredModel, folder: Path, precision: str = "f32") -> Path:
    folder.mkdir()
    target.write(source_of(model), folder, target.Options(precision))
    return folder


def open_request(folder: Path) -> openvino.InferRequest:
    """A request of the graph, whose states are in 32 bits."""
    exact = {"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32"}
    return openvino.Core().compile_model(folder / "openvino_model.xml", "CPU", exact).create_infer_request()


@pytest.mark.parametrize("case", CASES)
def test_the_graph_computes_what_transformers_does(golden: Make, tmp_path: Path, case: str) -> None:
    request = open_request(write(golden(case), tmp_path / "out"))
    tokens, logits = golden_values(case)
    rows = np.arange(len(tokens), dtype=np.int32)
    for start, end in ((0, 9), *((i, i + 1) for i in range(9, 24))):
        mask = np.ones((len(tokens), end), np.int64)
        places = np.tile(np.arange(start, end), (len(tokens), 1))
        feeds = {"input_ids": tokens[:, start:end], "attention_mask": mask, "position_ids": places, "beam_idx": rows}
        found = request.infer(feeds)["logits"]
        np.testing.assert_allclose(found, logits[:, start:end], atol=TOLERANCE)


def test_a_row_with_padding_before_it_is_computed_as_without(golden: Make, tmp_path: Path) -> None:
    request = open_request(write(golden("gptj"), tmp_path / "out"))
    tokens, logits = golden_values("gptj")
    padded = np.concatenate([np.zeros((1, 3), np.int64), tokens[:1, :8]], axis=1)
    mask = np.array([[0] * 3 + [1] * 8])
    places = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    feeds = {"input_ids": padded, "attention_mask": mask, "position_ids": places, "beam_idx": np.zeros(1, np.int32)}
    np.testing.assert_allclose(request.infer(feeds)["logits"][0, 3:], logits[0, :8], atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_openvino_turns_its_attention_into_that_of_many_requests(golden: Make, tmp_path: Path, case: str) -> None:
    model = openvino.Core().read_model(write(golden(case), tmp_path / "out") / "openvino_model.xml")
    paged_attention_transformation(model)
    kinds = [node.get_type_name() for node in model.get_ops()]
    paged = [node for node in model.get_ordered_ops() if node.get_type_name() == "PagedAttentionExtension"]
    decoder = open_golden(case)[0]
    assert len(paged) == len(decoder.layers)
    assert "ScaledDotProductAttention" not in kinds
    for node, layer in zip(paged, decoder.layers, strict=True):
        assert abs(evaluate(node.input_value(10))) == layer.window
        np.testing.assert_allclose(evaluate(node.input_value(11)), layer.alibi, rtol=1e-6)


def evaluate(output: openvino.Output) -> np.ndarray:
    """What a part of a graph without inputs gives."""
    request = openvino.Core().compile_model(openvino.Model([output], []), "CPU").create_infer_request()
    found: np.ndarray = next(iter(request.infer().values()))
    return found


def test_the_check_tells_how_near_the_graph_is_and_fails_where_it_is_another_models(
    golden: Make, tmp_path: Path
) -> None:
    model, options = golden("gptj"), target.Options("int8")
    folder = write(model, tmp_path / "out", "int8")
    [found] = target.check(source_of(model), folder, options)
    assert found.passed, found.figure
    other = write(golden("gpt_bigcode"), tmp_path / "other", "int8")
    [found] = target.check(source_of(model), other, options)
    assert not found.passed


def test_what_the_target_cannot_have_is_refused_by_name(golden: Make) -> None:
    with pytest.raises(ExportError, match=r"an encoder-decoder \(t5\): the target openvino has decoders only"):
        target.refuse(source_of(golden("t5")), target.Options())
    with pytest.raises(ExportError, match="longrope"):
        target.refuse(source_of(golden("phi3-longrope")), target.Options())
