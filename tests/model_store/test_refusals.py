"""What no family has, and what is wrong in a checkpoint, is refused with the name of the field, file or tensor."""

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from model_store import UnsupportedCheckpoint, families
from model_store.checkpoint.checkpoint import Checkpoint, tensors
from model_store.checkpoint.config_fields import LIMITS
from model_store.checkpoint.weights import Canonical, bits, is_finite
from model_store.convert import convert, describe, open_checkpoint
from support.checkpoints import MakeCheckpoint, Run
from support.golden_logits import GOLDEN
from support.respelled_checkpoints import Tensors, configure, respelled

TYPES = {
    "dbrx": "mixes experts",
    "deepseek_v32": "latents",
    "rwkv": "recurrent state",
    "zamba2": "recurrent state",
    "glm4v": "images or sound",
    "exaone4_5": "images or sound",
    "granite_speech": "images or sound",
    "siglip_vision_model": "images or sound",
    "qwen3_omni_moe": "mixes experts",
    "llava": "images or sound",
    "whisper": "images or sound",
    "hubert": "images or sound",
    "sam2_video": "images or sound",
    "gemma4_unified_assistant": "drafts for another model",
    "bert": "writes none",
    "m2m_100": "encoder of another kind",
    "t5gemma2_text": "encoder of another kind",
    "timesfm": "forecasts numbers",
    "xlm-roberta": "writes none",
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_that_cannot_run_is_refused_with_the_reason(kind: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=f"'{kind}' are not supported: this one.*{TYPES[kind]}"):
        families.find({"model_type": kind})


@pytest.mark.parametrize(
    ("kind", "near"), [("lama", "llama"), ("gpt-2", "gpt2"), ("qwen-2", "qwen2"), ("phi-3", "phi3")]
)
def test_an_unknown_type_is_refused_with_the_nearest_known_one(kind: str, near: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=f"'{kind}' are not supported; did the publisher mean {near}"):
        families.find({"model_type": kind})


@pytest.mark.parametrize("kind", ["mistral4", "diffllama", "qwen", "xlm", "modernbert-decoder"])
def test_the_type_of_another_model_is_not_taken_for_a_slip(kind: str) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=rf"'{kind}' are not supported; docs/models.md lists"):
        families.find({"model_type": kind})


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("kv_lora_rank", 512, "attends through latents"),
        ("mamba_d_state", 128, "keeps a recurrent state"),
        ("vision_config", {"depth": 2}, "reads or makes images or sound"),
        ("n_routed_experts", 64, "mixes experts"),
        ("is_encoder_decoder", True, "has an encoder of another kind"),
        ("text_config", {"kv_lora_rank": 512}, "attends through latents"),
    ],
)
def test_a_field_tells_why_a_type_that_nobody_knows_cannot_run(field: str, value: object, reason: str) -> None:
    with pytest.raises(
        UnsupportedCheckpoint, match=rf"'new_lm' are not supported: this one {reason}.* \(\w+ in config"
    ):
        families.find({"model_type": "new_lm", field: value, "auto_map": {"AutoModel": "own"}})


def test_a_class_tells_what_a_type_that_nobody_knows_is_for() -> None:
    with pytest.raises(UnsupportedCheckpoint, match="NewForObjectDetection .* writes no text"):
        families.find({"model_type": "new", "architectures": ["NewForObjectDetection"]})


def test_a_config_without_a_type_is_refused() -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"None are not supported; docs/models.md lists"):
        families.find({})


def test_code_of_the_publisher_is_never_run() -> None:
    own = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    with pytest.raises(UnsupportedCheckpoint, match="'own_lm' are not supported.*auto_map.*nothing.*is ever executed"):
        families.find({"model_type": "own_lm", "auto_map": own})
    assert families.find({"model_type": "phi3", "auto_map": own})  # known without its code


FIELDS: dict[str, tuple[str, dict[str, object], str]] = {
    "gptq": ("llama", dict(quantization_config=dict(quant_method="gptq", bits=3)), "quantization_config.*gptq"),
    "awq": ("qwen2", dict(quantization_config=dict(quant_method="awq")), "quantization_config.*awq"),
    "rounded otherwise": ("llama", dict(quantization_config=dict(quant_method="aqlm")), "aqlm.*bfloat16"),
    "rounded by nobody": ("llama", dict(quantization_config=dict(quant_method=[], bits=4)), r"rounded already.*\[\]"),
    "no tile": ("llama", dict(quantization_config=dict(quant_method="fp8", weight_block_size=[0])), "rounded.*fp8"),
    "mxfp4 elsewhere": ("qwen3_moe", dict(quantization_config=dict(quant_method="mxfp4")), "rounded already.*mxfp4"),
    "experts": ("llama", dict(num_local_experts=8), r"llama with 8 experts \(num_local_experts"),
    "routed experts": ("mistral", dict(n_routed_experts=64), "64 experts"),
    "cross-attention": ("gpt2", dict(add_cross_attention=True), "cross-attention"),
    "residual after the norm": ("bloom", dict(apply_residual_connection_post_layernorm=True), "after the norm"),
    "chunks": ("llama", dict(attention_chunk_size=8192), "attention_chunk_size"),
    "norms on queries": ("phi", dict(qk_layernorm=True), "qk_layernorm"),
    "neighbours turn": ("llama", dict(rope_interleaved=True), "rope_interleaved"),
    "several dimensions": ("qwen2", dict(use_mrope=True), "use_mrope"),
    "both directions": ("gemma3_text", dict(use_bidirectional_attention=True), "use_bidirectional_attention"),
    "no text": ("llama", dict(architectures=["LlamaForSequenceClassification"]), "ForSequenceClassification.*no text"),
    "kind of layer": ("gemma2", dict(layer_types=["linear_attention"] * 2), "'linear_attention'.*layer_types"),
    "chunked layers": ("smollm3", dict(layer_types=["chunked_attention"] * 2), "'chunked_attention'"),
    "too few layers": ("gemma2", dict(layer_types=["full_attention"]), "layer_types names 1 layers, there are 2"),
    "attention types": ("gpt_neo", dict(attention_types=[[["global"], 1]]), "attention_types should say"),
    "activation": ("gpt2", dict(activation_function="quick_gelu"), "'quick_gelu' is not supported"),
    "shared layers": ("hunyuan_v1_moe", dict(use_cla=True), "hunyuan_v1_moe with use_cla .* other than False is not"),
    "experts of each": ("hunyuan_v1_moe", dict(moe_topk=[2, 3]), r"moe_topk \(config.json\) differs from layer to"),
    "biases of falcon-h1": ("falcon_h1", dict(attention_bias=True), r"falcon_h1 with attention_bias \(config.json\)"),
    "norm before the gate": ("falcon_h1", dict(mamba_norm_before_gate=True), "falcon_h1 with mamba_norm_before_gate"),
    "factors of falcon-h1": ("falcon_h1", dict(ssm_multipliers=[1.0]), "ssm_multipliers should be five numbers"),
    "residuals of gemma 3n": ("gemma3n_text", dict(altup_num_inputs=2), "altup_num_inputs .* other than 4 is not"),
    "scale of gemma 3n": ("gemma3n_text", dict(altup_correct_scale=False), "altup_correct_scale .* other than True"),
    "tokens of gemma 3n": ("gemma3n_text", dict(vocab_size_per_layer_input=90), "tells of 90 .* of 96 tokens of texts"),
    "gates of gemma 3n": ("gemma3n_text", dict(activation_sparsity_pattern=[0.5]), "tells of 1 layers, there are 4"),
    "all gates of gemma 3n": ("gemma3n_text", dict(activation_sparsity_pattern=[1.0]), "should be a list .* below 1"),
    "later of gemma 4": ("gemma4_text", dict(use_bidirectional_attention="all"), "use_bidirectional_attention in"),
    "layers of gemma 4": ("gemma4_text", dict(per_layer_config={"1": dict(scale=8)}), "a 'scale' of their own"),
    "heads of a layer": ("gemma4_text", dict(per_layer_config={"1": dict(head_dim="x")}), "^head_dim in config.json"),
    "experts as blocks": ("nemotron_h", dict(layers_block_type=["mamba", "moe"] * 3), r"experts without gates \(moe\)"),
    "unknown blocks": ("nemotron_h", dict(layers_block_type=["mamba", "conv"] * 3), "blocks of the kind 'conv'"),
    "unknown letters": ("nemotron_h", dict(layers_block_type=None, hybrid_override_pattern="M*X"), "kind 'X'"),
    "no blocks": ("nemotron_h", dict(layers_block_type=None), "no layers_block_type"),
    "more blocks": ("nemotron_h", dict(num_hidden_layers=7), "its blocks are 6, and num_hidden_layers is 7"),
    "letters without end": (
        "nemotron_h", dict(layers_block_type=None, hybrid_override_pattern="M" * 10**6), "has 1,000,000 blocks, and no"
    ),
    "feed-forward first": ("nemotron_h", dict(layers_block_type=["mlp", "attention"]), "follows no layer that mixes"),
    "two in a row": ("nemotron_h", dict(layers_block_type=["attention", "mlp", "mlp"]), "follows no layer that mixes"),
    "activation of a state": ("nemotron_h", dict(mamba_hidden_act="relu"), "mamba_hidden_act .* 'relu'; only silu"),
    "limits of steps": ("nemotron_h", dict(time_step_limit=[0.01, 1.0]), "time_step_limit .*limits are not supported"),
    "sharing all": ("gemma4_text", dict(num_kv_shared_layers=6), "num_kv_shared_layers. none has such keys"),
    "activation of gemma": ("gemma", dict(hidden_activation="mish", hidden_act="mish"), "'mish' is not supported"),
    "rotary positions": ("llama", dict(rope_parameters=dict(rope_type="elastic", factor=2.0)), "'elastic' are not"),
}  # fmt: skip


@pytest.mark.parametrize("what", FIELDS)
def test_a_field_that_asks_for_what_no_family_has_is_refused(tmp_path: Path, what: str) -> None:
    case, changed, says = FIELDS[what]
    folder = Path(shutil.copytree(GOLDEN / case, tmp_path / case))
    configure(folder, **changed)
    with pytest.raises(UnsupportedCheckpoint, match=says):
        open_checkpoint(folder)


SIZES: dict[str, tuple[str, dict[str, object], str]] = {
    "layers": ("llama", dict(num_hidden_layers=10**12), "num_hidden_layers in config.json is 1000000000000, and no"),
    "layers of gpt2": ("gpt2", dict(n_layer=10**400), r"n_layer in config.json is 10{39}\.\.\., and no model.* 4,096"),
    "heads": ("bloom", dict(n_head=1 << 40), "n_head"),
    "heads of one element": ("llama", dict(head_dim=10**10), "head_dim"),
    "hidden size": ("llama", dict(hidden_size=10**15), "hidden_size"),
    "hidden size of t5": ("../golden_answers/t5", dict(d_kv=10**15), "d_kv"),
    "vocabulary": ("gpt2", dict(vocab_size=10**12), "vocab_size"),
    "positions": ("llama", dict(max_position_embeddings=10**12), "max_position_embeddings"),
    "positions and heads": ("llama", dict(max_position_embeddings=1 << 22, head_dim=1 << 12), "is too large"),
    "window": ("mistral", dict(sliding_window=10**30), "sliding_window"),
    "distances": ("../golden_answers/t5", dict(relative_attention_max_distance=10**12), "relative_attention_max_dist"),
    "what turns": ("gpt_neox", dict(rope_parameters=dict(partial_rotary_factor=1e12)), "a number from 0 to 1"),
    "no number": ("llama", dict(hidden_size=float("nan")), "hidden_size in config.json is NaN"),
    "without end": ("gpt_neox", dict(rope_parameters=dict(partial_rotary_factor=float("inf"))), "is Infinity"),
    "factors": ("phi3-longrope", dict(num_attention_heads=8, num_key_value_heads=2), "short_factor has "),
    "kinds of layers": ("gpt_neo", dict(attention_types=[[["global", "local"], 10**12]]), "attention_types should say"),
    "inside": ("gemma3", dict(text_config=dict(num_hidden_layers=10**12)), "num_hidden_layers"),
}  # fmt: skip


@pytest.mark.parametrize("what", SIZES)
def test_a_size_that_nobody_means_is_refused_by_its_field_before_anything_is_made(tmp_path: Path, what: str) -> None:
    case, changed, says = SIZES[what]
    folder = Path(shutil.copytree(GOLDEN / case, tmp_path / "huge"))
    configure(folder, **changed)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedCheckpoint, match=says):
            open_checkpoint(folder)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_no_published_model_is_near_the_limits() -> None:
    for config in json.loads((Path(__file__).parents[1] / "published.json").read_text()).values():
        fields = {**config, **config.get("text_config", {})}
        known = {name: value for name, value in fields.items() if type(value) is int and name in LIMITS}
        assert known and all(value * 4 <= LIMITS[name] for name, value in known.items())


def test_an_adapter_is_refused_with_the_name_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base"}))
    save_file(
        {"base_model.layers.0.lora_A.weight": np.ones((2, 2), np.float32)}, tmp_path / "adapter_model.safetensors"
    )
    for content in None, "{}":
        if content:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(UnsupportedCheckpoint, match=r"adapter \(adapter_config\.json\) for org/base.*merge"):
            Checkpoint(tmp_path)
    shutil.copytree(GOLDEN / "llama", tmp_path, dirs_exist_ok=True)
    (tmp_path / "adapter_model.safetensors").unlink()
    assert Checkpoint(tmp_path).tensors  # a model that was merged


def test_a_tensor_that_is_rounded_already_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    header = json.dumps({"x.weight": {"dtype": "F8_E3M4", "shape": [4], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(UnsupportedCheckpoint, match=r"x\.weight is rounded already \(F8_E3M4\).*bfloat16"):
        tensors(path)


def refused(folder: Path) -> str:
    """What is said when the checkpoint in `folder` is converted."""
    target = folder / "lowered"
    target.mkdir()
    with pytest.raises(UnsupportedCheckpoint) as error:
        convert(folder, target, backend="onnx", precision="int8")
    return str(error.value)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.1.mlp.up_proj.bias", "model.layers.0.self_attn.k_proj.weight"]
)
def test_values_that_are_no_numbers_are_refused_by_the_tensor(
    tmp_path: Path, name: str, dtype: type, wrong: float
) -> None:
    def spoil(found: Tensors) -> Tensors:
        spoiled: np.ndarray = found[name].astype(dtype)
        spoiled.flat[-1] = wrong
        return found | {name: spoiled}

    assert refused(respelled("llama", tmp_path, spoil)) == (
        f"the tensor {name} holds NaN or infinite values; download it again"
    )


def test_large_and_tiny_numbers_are_numbers() -> None:
    for dtype in np.float16, np.float32, np.float64:
        limits = np.finfo(dtype)
        values = np.array([[limits.max, limits.min, limits.tiny, limits.smallest_subnormal, 0, -0.0]], dtype)
        assert is_finite(values) and is_finite(values.T)
        assert not is_finite(np.where(values == 0, np.array(np.nan, dtype), values).T)
    assert is_finite(np.ones((0, 3), np.float32)) and is_finite(np.ones((3, 0), np.float32))
    assert sum(len(part) for part in bits(np.ones((300_000, 3), np.float32))) == 300_000


Reshape = Callable[[np.ndarray], np.ndarray]
SHAPES: dict[str, tuple[str, str, Reshape]] = {
    "fewer rows": ("llama", "layers.0.mlp.down_proj.weight", lambda x: x[:-1]),
    "fewer columns": ("llama", "layers.1.self_attn.o_proj.weight", lambda x: x[:, :-1]),
    "fewer inputs": ("llama", "layers.0.self_attn.k_proj.weight", lambda x: x[:, :-1]),
    "one row more": ("llama", "layers.0.mlp.up_proj.weight", lambda x: np.concatenate([x, x[:1]])),
    "a norm of another size": ("llama", "layers.0.input_layernorm.weight", lambda x: x[:-1]),
    "a bias of another size": ("llama", "layers.0.self_attn.q_proj.bias", lambda x: x[:-1]),
    "another vocabulary": ("llama", "embed_tokens.weight", lambda x: x[:-1]),
    "another head": ("llama", "lm_head.weight", lambda x: x[:-1]),
    "a norm of heads": ("qwen3", "layers.1.self_attn.q_norm.weight", lambda x: x[:-1]),
    "fewer positions": ("gpt2", "wpe.weight", lambda x: x[:-1]),
    "stored the other way": ("gpt2", "h.1.mlp.c_fc.weight", lambda x: x.T),
    "grouped heads": ("bloom", "h.0.self_attention.query_key_value.weight", lambda x: x[:-1]),
    "not two dimensions": ("llama", "layers.0.mlp.gate_proj.weight", lambda x: x[None]),
    "a single number": ("llama", "layers.0.self_attn.o_proj.weight", lambda x: x[0, 0]),
    "a projection": ("opt-post_norm", "decoder.project_out.weight", lambda x: x[:-1]),
    "a narrower embedding": ("opt-post_norm", "decoder.embed_tokens.weight", lambda x: x[:, :-1]),
}


@pytest.mark.parametrize("what", SHAPES)
def test_a_shape_that_does_not_fit_is_refused_by_the_tensor(tmp_path: Path, what: str) -> None:
    case, ending, reshape = SHAPES[what]

    def change(found: Tensors) -> Tensors:
        return {name: reshape(x) if name.endswith(ending) else x for name, x in found.items()}

    said = refused(respelled(case, tmp_path, change))
    assert ending in said and "shape" in said and "config.json" in said


def test_attention_sinks_are_refused_by_the_tensor(tmp_path: Path) -> None:
    sinks = {"model.layers.0.self_attn.sinks": np.ones(4, np.float32)}
    folder = respelled("llama", tmp_path, lambda found: found | sinks)
    with pytest.raises(UnsupportedCheckpoint, match=r"model\.layers\.0\.self_attn\.sinks"):
        Canonical(*open_checkpoint(folder))


@pytest.mark.parametrize("vocabulary", [{"a": 0, "b": 96}, [["a", 0.0]] * 97], ids=["bpe", "unigram"])
def test_a_tokenizer_beyond_the_embedding_is_refused(tmp_path: Path, vocabulary: object) -> None:
    folder = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    with pytest.raises(
        UnsupportedCheckpoint, match=r"tokenizer\.json has a token 96 and the model knows 96 \(vocab_size"
    ):
        describe(folder)


def test_a_tokenizer_may_be_smaller_and_have_tokens_added_beyond(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "llama"))
    added = [{"id": 96, "content": "<image>", "special": True}]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": {"vocab": {"a": 0}}}))
    assert describe(folder).family == "llama"


def test_each_refusal_is_one_line_of_the_command(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(quantization_config={"quant_method": "gptq"})
    done = chatapp("run", str(folder), "x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: ") and "gptq" in done.stderr
