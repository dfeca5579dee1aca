"""T5's checkpoints as they are on the Hub: old and new fields, copies of the embedding, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_store import UnsupportedCheckpoint
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from model_store.families import t5

GOLDEN = Path(__file__).parents[1] / "golden_answers"


def config_of(case: str, **fields: object) -> Config:
    content: dict[str, Any] = json.loads((GOLDEN / case / "config.json").read_text())
    return {**content, **fields}


def test_old_and_new_spellings_of_the_configuration_mean_the_same() -> None:
    bare = t5.decoder(config_of("t5"))
    assert (bare.activation, bare.start_token, bare.context_length) == ("relu", 0, 320)
    assert bare.output_scale == pytest.approx(32**-0.5)
    assert (len(bare.layers), len(bare.encoder)) == (2, 2)
    full = dict(feed_forward_proj="relu", dense_act_fn="relu", is_gated_act=False, num_decoder_layers=2)
    full |= dict(relative_attention_max_distance=128, tie_word_embeddings=True, scale_decoder_outputs=True)
    assert t5.decoder(config_of("t5", **full, pad_token_id=0, decoder_start_token_id=0)) == bare
    flan = t5.decoder(config_of("t5-flan"))
    assert (flan.activation, flan.output_scale, flan.start_token) == ("gelu_tanh", 1.0, 3)
    assert (len(flan.layers), len(flan.encoder)) == (3, 2)
    new = dict(tie_word_embeddings=True, scale_decoder_outputs=False, dense_act_fn="gelu_new", is_gated_act=True)
    assert t5.decoder(config_of("t5-flan", **new)) == flan
    assert t5.decoder(config_of("t5", decoder_start_token_id=None, pad_token_id=5)).start_token == 5
    assert t5.decoder(config_of("t5", feed_forward_proj="gated-silu")).activation == "silu"


def test_buckets_are_one_distance_wide_and_then_ever_wider() -> None:
    earlier = t5.one_sided(32, 128)
    assert earlier[:17] == tuple(range(17))
    assert [earlier.index(bucket) for bucket in range(16, 32)] == [
        16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113,
    ]  # fmt: skip
    assert (len(earlier), earlier[-1]) == (129, 31)
    both = t5.two_sided(32, 128)
    assert len(both) == 257
    assert both[128:] == t5.one_sided(16, 128)
    assert both[:128] == tuple(bucket + 16 for bucket in t5.one_sided(16, 128)[:0:-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden t5."""
    return Path(shutil.copytree(GOLDEN / "t5", tmp_path / "t5"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (dict(is_gated_act=True), "feed_forward_proj 'relu' and is_gated_act True contradict"),
        (dict(dense_act_fn="gelu"), "feed_forward_proj 'relu' and dense_act_fn 'gelu' contradict"),
        (dict(feed_forward_proj="gated-tanh"), "activation 'tanh' is not supported"),
        (dict(relative_attention_num_buckets=16), r"relative_attention_bias.weight has shape \(32, 2\).*\(16, 2\)"),
        (dict(relative_attention_max_distance=8), "32 buckets do not suit distances up to 8"),
        (dict(decoder_start_token_id=96), "start token 96 is not among the 96"),
        (dict(num_decoder_layers=3), "lacks the tensor decoder.block.2"),
        (dict(num_layers=1), "nothing is known about the tensor"),
        (dict(d_kv=8), "config.json and the tensors beside it"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(folder: Path, fields: dict[str, object], says: str) -> None:
    (folder / "config.json").write_text(json.dumps(config_of("t5", **fields)))
    with pytest.raises(UnsupportedCheckpoint, match=says):
        checkpoint, family, decoder = open_checkpoint(folder)
        weights = Canonical(checkpoint, family, decoder)
        for name in weights:
            weights[name]


def embedding(weights: Canonical) -> np.ndarray:
    found = weights["embedding"].values
    assert isinstance(found, np.ndarray)
    return found


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> Canonical:
    """The weights of a checkpoint whose tensors were changed."""
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors")
    return Canonical(*open_checkpoint(folder))


def test_copies_of_the_embedding_are_one_weight_and_must_agree(folder: Path) -> None:
    alone = rewrite(folder, lambda tensors: None)
    expected = embedding(alone)

    def copy(tensors: dict[str, np.ndarray]) -> None:
        for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = tensors["shared.weight"].copy()

    copied = rewrite(folder, copy)
    assert copied.parameters == alone.parameters
    assert copied["lm_head"].name == copied["embedding"].name == "embedding"
    assert np.array_equal(embedding(copied), expected)
    unnamed = rewrite(folder, lambda tensors: tensors.pop("shared.weight"))
    assert np.array_equal(embedding(unnamed), expected)
    different = rewrite(folder, lambda tensors: tensors["decoder.embed_tokens.weight"].fill(0))
    with pytest.raises(UnsupportedCheckpoint, match="encoder.embed_tokens.weight and decoder.* should be copies"):
        different["embedding"]


def test_a_head_with_values_of_its_own_is_used_even_where_it_is_called_tied(folder: Path) -> None:
    weights = rewrite(folder, lambda tensors: tensors.update({"lm_head.weight": 2 * tensors["shared.weight"]}))
    assert weights["lm_head"].name == "lm_head"
    assert weights.parameters == sum(tensor.size for tensor in weights.tensors.values())


def test_a_feed_forward_with_and_without_a_gate_is_refused(folder: Path) -> None:
    name = "decoder.block.1.layer.2.DenseReluDense."
    halves = {name + "wi_0.weight": np.ones((48, 32)), name + "wi_1.weight": np.ones((48, 32))}
    with pytest.raises(UnsupportedCheckpoint, match=r"nothing is known.*block.1.layer.2.DenseReluDense.wi.weight"):
        rewrite(folder, lambda tensors: tensors.update({k: v.astype(np.float32) for k, v in halves.items()}))


def test_the_unused_bias_of_old_checkpoints_is_passed_over(folder: Path) -> None:
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    rewrite(folder, lambda tensors: tensors.update({name: np.zeros((32, 2), np.float32)}))


def test_where_an_untied_head_is_left_out_the_embedding_takes_its_place_unscaled(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "t5-flan", tmp_path / "flan"))
    weights = rewrite(folder, lambda tensors: tensors.pop("lm_head.weight"))
    assert weights["lm_head"].name == "embedding"
    assert weights.decoder.output_scale == 1
