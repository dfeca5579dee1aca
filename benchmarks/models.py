"""The models that are built: what their publishers' config.json say, and what their tensors are called."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Model:
    """One model: its configuration, without what every one has, and how its weights are stored."""

    config: dict[str, Any]  # Any: JSON
    dtype: str = "BF16"
    """As safetensors spells it: F32, F16 or BF16."""

    @property
    def vocab_size(self) -> int:
        return int(self.config["vocab_size"])


def gpt2(layers: int, hidden: int, heads: int, vocab: int = 50257, context: int = 1024, dtype: str = "F16") -> Model:
    return Model({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": vocab, "n_positions": context,
        "n_ctx": context, "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": 4 * hidden,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
    }, dtype)  # fmt: skip


def llama(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, context: int) -> Model:
    return Model({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_act": "silu",
        "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": hidden // heads, "intermediate_size": ffn,
        "max_position_embeddings": context, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "attention_bias": False,
        "mlp_bias": False, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    })  # fmt: skip


def gptj(layers: int, hidden: int, heads: int, vocab: int, context: int, rotary: int, family: str = "gptj") -> Model:
    return Model({
        "model_type": family, "vocab_size": vocab, "n_positions": context, "n_embd": hidden, "n_layer": layers,
        "n_head": heads, "rotary_dim": rotary, "n_inner": None, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False,
    }, "BF16" if family == "gptj" else "F16")  # fmt: skip


MODELS = {
    "distilgpt2": gpt2(6, 768, 12),
    "gpt2": gpt2(12, 768, 12, dtype="F32"),
    "gpt2-medium": gpt2(24, 1024, 16, dtype="F32"),
    "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25),
    "biogpt": Model({
        "model_type": "biogpt", "vocab_size": 42384, "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "hidden_act": "gelu", "max_position_embeddings": 1024,
        "scale_embedding": True, "layer_norm_eps": 1e-12, "tie_word_embeddings": True,
    }, "F16"),
    "qwen2.5-0.5b": llama(24, 896, 14, 2, 4864, 151936, 32768),
    "gemma-3-1b": Model({
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
        "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
        "intermediate_size": 6912, "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 32768,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "sliding_window": 512, "sliding_window_pattern": 6, "tie_word_embeddings": True,
    }),
    "bloom-1b1": Model({
        "model_type": "bloom", "vocab_size": 250880, "hidden_size": 1536, "n_layer": 24, "n_head": 16,
        "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False, "tie_word_embeddings": True,
    }, "F16"),
    "starcoderbase-1b": Model({
        "model_type": "gpt_bigcode", "vocab_size": 49152, "n_positions": 8192, "n_embd": 2048, "n_layer": 24,
        "n_head": 16, "n_inner": 8192, "activation_function": "gelu_pytorch_tanh", "multi_query": True,
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True,
    }),
    "gpt-neo-1.3b": Model({
        "model_type": "gpt_neo", "vocab_size": 50257, "hidden_size": 2048, "num_layers": 24, "num_heads": 16,
        "attention_types": [[["global", "local"], 12]], "window_size": 256, "max_position_embeddings": 2048,
        "intermediate_size": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    }, "F16"),
    "pythia-1.4b": Model({
        "model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 8192, "hidden_act": "gelu", "rotary_pct": 0.25,
        "rotary_emb_base": 10000, "max_position_embeddings": 2048, "layer_norm_eps": 1e-5,
        "use_parallel_residual": True, "tie_word_embeddings": False,
    }, "F16"),
    "codegen-2b": gptj(32, 2560, 32, 51200, 2048, 64, "codegen"),
    "gpt-j-6b": gptj(28, 4096, 16, 50400, 2048, 64),
    "flan-t5-large": Model({
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 32128, "d_model": 1024,
        "d_kv": 64, "d_ff": 2816, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 16, "n_positions": 512,
        "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True, "tie_word_embeddings": False,
        "decoder_start_token_id": 0, "pad_token_id": 0,
    }),
    "tiny-gpt2": gpt2(2, 64, 4, 1024, 512, "F32"),
    "tiny-llama": llama(2, 64, 4, 2, 128, 1024, 512),
    "tiny-gptj": gptj(2, 512, 2, 2048, 512, 64),
}  # fmt: skip
"""`qwen2.5-0.5b` is a llama with that model's sizes; the tiny ones are for tests."""

TIMED = "gpt2", "gpt2-medium", "qwen2.5-0.5b"
"""The models that are timed against peers."""

LAYOUTS = {
    "gpt2": """wte V H, wpe P H, h.*.ln_1+ H, h.*.attn.c_attn+ H 3H, h.*.attn.c_proj+ H H,
        h.*.ln_2+ H, h.*.mlp.c_fc+ H F, h.*.mlp.c_proj+ F H, ln_f+ H""",
    "llama": """model.embed_tokens V H, model.layers.*.self_attn.q_proj Q H, model.layers.*.self_attn.k_proj K H,
        model.layers.*.self_attn.v_proj K H, model.layers.*.self_attn.o_proj H Q,
        model.layers.*.mlp.gate_proj F H, model.layers.*.mlp.up_proj F H, model.layers.*.mlp.down_proj H F,
        model.layers.*.input_layernorm H, model.layers.*.post_attention_layernorm H, model.norm H""",
    "gemma3_text": """model.embed_tokens V H, model.layers.*.self_attn.q_proj Q H, model.layers.*.self_attn.k_proj K H,
        model.layers.*.self_attn.v_proj K H, model.layers.*.self_attn.o_proj H Q,
        model.layers.*.self_attn.q_norm D, model.layers.*.self_attn.k_norm D,
        model.layers.*.mlp.gate_proj F H, model.layers.*.mlp.up_proj F H, model.layers.*.mlp.down_proj H F,
        model.layers.*.input_layernorm H, model.layers.*.post_attention_layernorm H,
        model.layers.*.pre_feedforward_layernorm H, model.layers.*.post_feedforward_layernorm H, model.norm H""",
    "biogpt": """biogpt.embed_tokens V H, biogpt.embed_positions P+2 H,
        biogpt.layers.*.self_attn.q_proj+ Q H, biogpt.layers.*.self_attn.k_proj+ K H,
        biogpt.layers.*.self_attn.v_proj+ K H, biogpt.layers.*.self_attn.out_proj+ H Q,
        biogpt.layers.*.self_attn_layer_norm+ H, biogpt.layers.*.fc1+ F H, biogpt.layers.*.fc2+ H F,
        biogpt.layers.*.final_layer_norm+ H, biogpt.layer_norm+ H""",
    "bloom": """word_embeddings V H, word_embeddings_layernorm+ H, h.*.input_layernorm+ H,
        h.*.self_attention.query_key_value+ 3H H, h.*.self_attention.dense+ H H, h.*.post_attention_layernorm+ H,
        h.*.mlp.dense_h_to_4h+ F H, h.*.mlp.dense_4h_to_h+ H F, ln_f+ H""",
    "gpt_bigcode": """transformer.wte V H, transformer.wpe P H, transformer.h.*.ln_1+ H,
        transformer.h.*.attn.c_attn+ H+2D H, transformer.h.*.attn.c_proj+ H H, transformer.h.*.ln_2+ H,
        transformer.h.*.mlp.c_fc+ F H, transformer.h.*.mlp.c_proj+ H F, transformer.ln_f+ H""",
    "gpt_neo": """transformer.wte V H, transformer.wpe P H, transformer.h.*.ln_1+ H,
        transformer.h.*.attn.attention.k_proj H H, transformer.h.*.attn.attention.v_proj H H,
        transformer.h.*.attn.attention.q_proj H H, transformer.h.*.attn.attention.out_proj+ H H,
        transformer.h.*.ln_2+ H, transformer.h.*.mlp.c_fc+ F H, transformer.h.*.mlp.c_proj+ H F,
        transformer.ln_f+ H""",
    "gpt_neox": """gpt_neox.embed_in V H, gpt_neox.layers.*.input_layernorm+ H,
        gpt_neox.layers.*.post_attention_layernorm+ H, gpt_neox.layers.*.attention.query_key_value+ 3H H,
        gpt_neox.layers.*.attention.dense+ H H, gpt_neox.layers.*.mlp.dense_h_to_4h+ F H,
        gpt_neox.layers.*.mlp.dense_4h_to_h+ H F, gpt_neox.final_layer_norm+ H, embed_out V H""",
    "codegen": """transformer.wte V H, transformer.h.*.ln_1+ H, transformer.h.*.attn.qkv_proj 3H H,
        transformer.h.*.attn.out_proj H H, transformer.h.*.mlp.fc_in+ F H, transformer.h.*.mlp.fc_out+ H F,
        transformer.ln_f+ H, lm_head+ V H""",
    "gptj": """transformer.wte V H, transformer.h.*.ln_1+ H, transformer.h.*.attn.k_proj H H,
        transformer.h.*.attn.v_proj H H, transformer.h.*.attn.q_proj H H, transformer.h.*.attn.out_proj H H,
        transformer.h.*.mlp.fc_in+ F H, transformer.h.*.mlp.fc_out+ H F, transformer.ln_f+ H, lm_head+ V H""",
    "t5": """shared V H, encoder.block.*.layer.0.SelfAttention.q Q H, encoder.block.*.layer.0.SelfAttention.k Q H,
        encoder.block.*.layer.0.SelfAttention.v Q H, encoder.block.*.layer.0.SelfAttention.o H Q,
        encoder.block.0.layer.0.SelfAttention.relative_attention_bias B N, encoder.block.*.layer.0.layer_norm H,
        encoder.block.*.layer.1.DenseReluDense.wi_0 F H, encoder.block.*.layer.1.DenseReluDense.wi_1 F H,
        encoder.block.*.layer.1.DenseReluDense.wo H F, encoder.block.*.layer.1.layer_norm H,
        encoder.final_layer_norm H,
        decoder.block.*.layer.0.SelfAttention.q Q H, decoder.block.*.layer.0.SelfAttention.k Q H,
        decoder.block.*.layer.0.SelfAttention.v Q H, decoder.block.*.layer.0.SelfAttention.o H Q,
        decoder.block.0.layer.0.SelfAttention.relative_attention_bias B N, decoder.block.*.layer.0.layer_norm H,
        decoder.block.*.layer.1.EncDecAttention.q Q H, decoder.block.*.layer.1.EncDecAttention.k Q H,
        decoder.block.*.layer.1.EncDecAttention.v Q H, decoder.block.*.layer.1.EncDecAttention.o H Q,
        decoder.block.*.layer.1.layer_norm H, decoder.block.*.layer.2.DenseReluDense.wi_0 F H,
        decoder.block.*.layer.2.DenseReluDense.wi_1 F H, decoder.block.*.layer.2.DenseReluDense.wo H F,
        decoder.block.*.layer.2.layer_norm H, decoder.final_layer_norm H, lm_head V H""",
}
"""By family: each name without `.weight`, `+` where there is a bias as well, and the shape of the weight.

`*` counts the layers. V stands for the vocabulary, P for positions, H for the hidden size, F for that of the
feed-forward, D for that of a head, Q and K for those of all queries and keys, N for heads, B for T5's buckets.
"""


def tensors(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and shape of every tensor, in the publisher's layout."""

    def field(*names: str) -> int:
        return next((int(config[name]) for name in names if config.get(name)), 0)

    hidden, heads = field("hidden_size", "n_embd", "d_model"), field("num_attention_heads", "n_head", "num_heads")
    head = field("head_dim", "d_kv") or hidden // heads
    ffn = field("intermediate_size", "n_inner", "d_ff") or 4 * hidden
    positions, buckets = field("max_position_embeddings", "n_positions"), field("relative_attention_num_buckets")
    sizes = {
        "V": field("vocab_size"), "P": positions, "P+2": positions + 2, "H": hidden, "3H": 3 * hidden,
        "D": head, "H+2D": hidden + 2 * head, "F": ffn, "Q": heads * head, "B": buckets, "N": heads,
        "K": (field("num_key_value_heads") or heads) * head,
    }  # fmt: skip
    for row in LAYOUTS[config["model_type"]].split(","):
        pattern, *symbols = row.split()
        shape = tuple(sizes[symbol] for symbol in symbols)
        layers = field("num_hidden_layers", "n_layer", "num_layers") if "*" in pattern else 1
        for i in range(layers):
            name = pattern.replace("*", str(i)).removesuffix("+")
            yield name + ".weight", shape
            if pattern.endswith("+"):
                yield name + ".bias", shape[-1:] if config["model_type"] == "gpt2" else shape[:1]
