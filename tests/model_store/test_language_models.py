"""Types whose config.json holds a language model among other things, or says in it what no model here does."""

import json
from pathlib import Path
from typing import Any

import pytest

from model_store import families
from model_store.checkpoint.rope import rope
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from model_store.errors import UnsupportedCheckpoint
from support.golden_models import GOLDEN
from support.respelled_checkpoints import Tensors, configure, respelled


def config_of(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / case / "config.json").read_text())
    return found


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
@pytest.mark.parametrize("named", ["mrope", "default"])
def test_older_files_have_the_fields_of_the_text_at_the_top(kind: str, named: str) -> None:
    nested = config_of(kind)
    text = nested["text_config"]
    section = text["rope_parameters"]["mrope_section"]
    flat = {name: value for name, value in text.items() if name != "rope_parameters"} | {
        "model_type": kind,
        "rope_theta": text["rope_parameters"]["rope_theta"],
        "rope_scaling": {"type": named, "mrope_section": section},
    }
    assert families.find(flat).decoder(flat) == families.find(nested).decoder(nested)


def test_a_scaling_beside_the_sections_is_not_left_out() -> None:
    plain = config_of("qwen2_vl")
    scaled = json.loads(json.dumps(plain))
    scaled["text_config"]["rope_parameters"] |= {"rope_type": "linear", "factor": 2.0}
    assert families.find(plain).decoder(plain) != families.find(scaled).decoder(scaled)


def test_mistral3_around_another_language_model_is_refused_by_its_type() -> None:
    config = config_of("mistral3")
    config["text_config"]["model_type"] = "gemma3_text"
    with pytest.raises(UnsupportedCheckpoint, match="language model of type 'gemma3_text'"):
        families.find(config).decoder(config)


@pytest.mark.parametrize("case", ["gemma4_text", "gemma4_text-k_eq_v"])
def test_gemma_4_says_in_older_files_how_layers_that_see_everything_differ(case: str) -> None:
    newer = config_of(case)
    older = {name: value for name, value in newer.items() if name != "per_layer_config"}
    older |= {"global_head_dim": 32, "num_global_key_value_heads": 1, "use_bidirectional_attention": "vision"}
    assert families.find(older).decoder(older) == families.find(newer).decoder(newer)
    older |= {"global_head_dim": 16}
    assert {layer.head_dim for layer in families.find(older).decoder(older).layers} == {16}


def test_gemma_4_whose_config_says_little_is_as_its_class_says() -> None:
    config = {"model_type": "gemma4_text", "num_hidden_layers": 7}
    decoder = families.find(config).decoder(config)
    assert [layer.window for layer in decoder.layers] == [512] * 5 + [0, 0]  # the last one sees everything
    near, far = decoder.layers[0], decoder.layers[5]
    assert (near.head_dim, near.kv_heads, far.head_dim, far.kv_heads, far.scale) == (256, 4, 512, 4, 1.0)
    assert near.rope and far.rope and not near.rope.inverse_frequencies.count(0)
    assert far.rope.inverse_frequencies[64:] == (0.0,) * 192 and far.rope.inverse_frequencies[1] == 1e6 ** (-2 / 512)
    assert decoder.per_layer_size == 256 and decoder.logit_softcap == 0
    larger = {**config, "hidden_size_per_layer_input": None, "num_global_key_value_heads": None}
    assert families.find(larger).decoder(larger).per_layer_size == 0


def test_gemma_4_of_2b_caches_fifteen_of_its_layers() -> None:
    turns = dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=1e6)
    text = dict(
        vocab_size=262_144, hidden_size=1536, num_hidden_layers=35, num_attention_heads=8, num_key_value_heads=1,
        head_dim=256, global_head_dim=512, num_global_key_value_heads=None, num_kv_shared_layers=20, num_experts=None,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7, sliding_window=512, attention_k_eq_v=False,
        hidden_size_per_layer_input=256, vocab_size_per_layer_input=262_144, use_double_wide_mlp=True,
        max_position_embeddings=131_072, final_logit_softcapping=30.0, use_bidirectional_attention=None,
        rope_parameters=dict(full_attention=turns, sliding_attention=dict(rope_type="default", rope_theta=10_000.0)),
    )  # fmt: skip
    config: dict[str, Any] = {"model_type": "gemma4", "text_config": text, "vision_config": {}, "audio_config": {}}
    decoder = families.find(config).decoder(config)
    assert decoder.sharing_start == len(decoder.cached_layers) == 15
    assert [layer.kv_layer for layer in decoder.layers[15:]] == [13, 13, 13, 13, 14] * 4
    assert {(layer.window, layer.head_dim, layer.kv_heads) for layer in decoder.layers} == {(512, 256, 1), (0, 512, 1)}
    assert decoder.per_layer_scale == 128**0.5 and decoder.embedding_scale == 1536**0.5


def test_gemma_3n_of_e2b_knows_the_tokens_of_texts_and_caches_twenty_of_its_layers() -> None:
    text = dict(
        vocab_size=262_400, hidden_size=2048, num_hidden_layers=30, intermediate_size=[8192] * 30,
        num_kv_shared_layers=10, activation_sparsity_pattern=[0.95] * 10 + [0.0] * 20, rope_theta=1e6,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 6, rope_local_base_freq=1e4, rope_scaling=None,
    )  # fmt: skip
    config: dict[str, Any] = {"model_type": "gemma3n", "text_config": text, "vision_config": {}, "audio_config": {}}
    decoder = families.find(config).decoder(config)
    assert (decoder.vocab_size, decoder.per_layer_size, decoder.logit_softcap) == (262_144, 256, 30.0)
    assert decoder.sharing_start == len(decoder.cached_layers) == 20
    assert [layer.kv_layer for layer in decoder.layers[20:]] == [18, 18, 18, 18, 19] * 2
    assert [layer.cutoff for layer in decoder.layers] == [pytest.approx(1.6448536)] * 10 + [None] * 20
    assert {(layer.window, layer.kv_heads, layer.scale) for layer in decoder.layers} == {(512, 2, 1.0), (0, 2, 1.0)}
    assert decoder.layers[4].rope == rope({"rope_theta": 1e6}, 256) and decoder.layers[3].rope == rope({}, 256)
    unsaid = {"model_type": "gemma3n_text", "num_hidden_layers": 30, "num_kv_shared_layers": 10}
    assert families.find(unsaid).decoder(unsaid) == decoder


def test_what_published_mixtures_say_otherwise_than_their_classes() -> None:
    dots = config_of("dots1") | {"layer_types": None, "sliding_window": 6, "max_window_layers": 1}
    assert [layer.window for layer in families.find(dots).decoder(dots).layers] == [0, 6]
    minimax = config_of("minimax_m2")
    older = {**minimax, "rope_parameters": None, "rope_theta": 500.0, "rotary_dim": 8, "use_qk_norm": True}
    assert families.find(older).decoder(older) == families.find(minimax).decoder(minimax)
    hunyuan = config_of("hunyuan_v1_moe")
    each = hunyuan | {"moe_topk": [2, 2], "num_shared_expert": [1, 1], "use_mixed_mlp_moe": True, "use_qk_norm": True}
    assert families.find(each).decoder(each) == families.find(hunyuan).decoder(hunyuan)


@pytest.mark.parametrize(("field", "value"), [("qk_ln", True), ("alibi", False), ("attn_type", "multiquery_attention")])
def test_mpt_with_what_transformers_does_not_compute_is_refused_by_the_field(field: str, value: object) -> None:
    config = config_of("mpt")
    config["attn_config"][field] = value
    with pytest.raises(UnsupportedCheckpoint, match=f"mpt with {field}"):
        families.find(config).decoder(config)


@pytest.mark.parametrize("heads", [2, 4, 16, 3, 12, 40])
def test_the_slopes_of_mpt_are_those_of_transformers(heads: int) -> None:
    from model_store.families.mpt import slopes

    power = 1 << (heads - 1).bit_length()
    series = [1 / 2 ** ((i + 1) * 8 / power) for i in range(power)]  # build_mpt_alibi_tensor
    expected = series if power == heads else [*series[1::2], *series[::2]][:heads]
    assert slopes(heads, 8) == pytest.approx(expected, abs=1e-12)


def test_an_olmo_hybrid_whose_norms_transformers_has_named_alike_is_refused(tmp_path: Path) -> None:
    def change(found: Tensors) -> Tensors:
        norm = "model.layers.1.post_attention_layernorm.weight"
        return found | {norm.replace("post_attention_layernorm", "feedforward_layer_norm"): found.pop(norm)}

    checkpoint, family, decoder = open_checkpoint(respelled("olmo_hybrid", tmp_path, change))
    with pytest.raises(UnsupportedCheckpoint, match=r"feedforward_layer_norm.*take the publisher's checkpoint"):
        dict(Canonical(checkpoint, family, decoder))


def test_apertus_1_5_is_its_language_model_beside_what_reads_images_and_sounds(tmp_path: Path) -> None:
    def nested(found: Tensors) -> Tensors:
        made = {name.replace("model.", "model.language_model."): values for name, values in found.items()}
        beside = ("model.vision_tokenizer.quant_conv.weight", "model.audio_tokenizer.encoder.weight")
        return made | {name: found["model.norm.weight"] for name in beside}

    text = config_of("apertus1p5_text")
    copy = respelled("apertus1p5_text", tmp_path, nested)
    configure(copy, model_type="apertus1p5", text_config=text, vision_config={}, audio_config={})
    whole, alone = (open_checkpoint(folder) for folder in (copy, GOLDEN / "apertus1p5_text"))
    assert whole[2] == alone[2] and whole[2].vocab_size == 96
    assert {*Canonical(*whole)} == {*Canonical(*alone)}
