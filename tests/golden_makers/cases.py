"""The configurations of the tiny checkpoints that families.py makes: one field or another of each family."""

from typing import cast

EPSILON = 1e-3
"""Not the default of any family, so that reading it from another field is seen."""
GPT: dict[str, object] = dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=2, layer_norm_epsilon=EPSILON)
LLAMA: dict[str, object] = dict(
    vocab_size=96,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=96,
    max_position_embeddings=64,
    rope_theta=500.0,
    rms_norm_eps=EPSILON,
    layer_norm_eps=EPSILON,
    norm_epsilon=EPSILON,
)
FALCON: dict[str, object] = dict(vocab_size=96, hidden_size=64, num_hidden_layers=2, num_attention_heads=4) | dict(
    max_position_embeddings=64, ffn_hidden_size=96, rope_theta=500.0, layer_norm_epsilon=EPSILON, bos_token_id=0
)
MROPE: dict[str, object] = dict(rope_type="default", rope_theta=500.0, mrope_section=[2, 3, 3])
PATCHES: dict[str, object] = dict(depth=1, embed_dim=16, hidden_size=64, num_heads=2)
EXPERTS: dict[str, object] = dict(moe_intermediate_size=48, num_experts_per_tok=2)
GPT_OSS: dict[str, object] = dict(LLAMA, head_dim=16, num_local_experts=6, num_experts_per_tok=3, sliding_window=6)
GPT_OSS |= dict(
    rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16)
    | dict(beta_fast=32.0, beta_slow=1.0, truncate=False)
)
GEMMA4: dict[str, object] = dict(LLAMA, head_dim=16, global_head_dim=32, sliding_window=6, final_logit_softcapping=3.0)
GEMMA4 |= dict(
    rope_parameters=dict(
        full_attention=dict(rope_type="proportional", rope_theta=500.0, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=90.0),
    )
)
DELTA: dict[str, object] = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8)
DELTA |= dict(linear_value_head_dim=12)
MAMBA: dict[str, object] = dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_state=12, mamba_n_groups=1, mamba_d_conv=3)
SELECTIVE: dict[str, object] = dict(vocab_size=96, hidden_size=64, num_hidden_layers=2, state_size=12, conv_kernel=3)
SELECTIVE |= dict(layer_norm_epsilon=EPSILON, max_position_embeddings=64)
BLOCKS: dict[str, object] = dict(LLAMA, head_dim=16, mlp_hidden_act="relu2", time_step_min=1e-9, conv_kernel=3)
BLOCKS |= dict(mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=12, layer_norm_epsilon=EPSILON)
LATENT: dict[str, object] = dict(kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16)
SHARPER: dict[str, object] = dict(
    rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16)
    | dict(beta_fast=32.0, beta_slow=1.0, mscale=0.5, mscale_all_dim=0.5)
)
GLM: dict[str, object] = dict(head_dim=16, n_routed_experts=8, n_group=4, topk_group=2, routed_scaling_factor=1.5)
CASES: dict[str, dict[str, object]] = {
    "gpt2": GPT,
    "gpt2-layer_scale": dict(GPT, scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, n_inner=48),
    "gpt_bigcode": dict(GPT, multi_query=True),
    "gpt_bigcode-multi_head": dict(GPT, multi_query=False),
    "llama": dict(LLAMA, attention_bias=True, mlp_bias=True),
    "llama-tied_scaled": dict(LLAMA, tie_word_embeddings=True)
    | dict(
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, original_max_position_embeddings=32)
        | dict(low_freq_factor=1.0, high_freq_factor=4.0)
    ),
    "llama-linear": dict(LLAMA, rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=4.0)),
    "llama-yarn": dict(
        LLAMA,
        head_dim=32,
        rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16),
    ),
    "bitnet": dict(LLAMA, tie_word_embeddings=True),
    "qwen2": LLAMA,
    "qwen2-window": dict(LLAMA, use_sliding_window=True, sliding_window=6, max_window_layers=1),
    "qwen3": dict(LLAMA, head_dim=20),
    "mistral": dict(LLAMA, sliding_window=6),
    "gemma": dict(LLAMA, head_dim=40),
    "gemma3_text": dict(LLAMA, num_hidden_layers=3, head_dim=16, sliding_window=6, query_pre_attn_scalar=24)
    | dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "gemma3": dict(
        text_config=dict(LLAMA, head_dim=16, sliding_window=6, sliding_window_pattern=2)
        | dict(rope_scaling=dict(rope_type="linear", factor=8.0)),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
        | dict(image_size=28, patch_size=14),
        mm_tokens_per_image=4,
    ),
    "gemma3n_text": dict(
        LLAMA, num_hidden_layers=4, head_dim=16, sliding_window=6, num_kv_shared_layers=2, laurel_rank=8
    )
    | dict(layer_types=["sliding_attention", "full_attention"] * 2, activation_sparsity_pattern=[0.7, 0.0, 0.0, 0.0])
    | dict(hidden_size_per_layer_input=16, vocab_size_per_layer_input=96, final_logit_softcapping=3.0)
    | dict(
        rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=500.0),
            sliding_attention=dict(rope_type="default", rope_theta=90.0),
        )
    ),
    "gemma4_text": dict(
        GEMMA4, num_hidden_layers=6, num_key_value_heads=1, num_kv_shared_layers=2, intermediate_size=64
    )
    | dict(layer_types=["sliding_attention", "full_attention"] * 3)
    | dict(hidden_size_per_layer_input=16, vocab_size_per_layer_input=96, use_double_wide_mlp=True),
    "gemma4_text-k_eq_v": dict(GEMMA4, num_hidden_layers=3, num_global_key_value_heads=1, attention_k_eq_v=True)
    | dict(layer_types=["sliding_attention"] * 2 + ["full_attention"], hidden_size_per_layer_input=0),
    "gemma4_text-experts": dict(GEMMA4, num_hidden_layers=2, num_global_key_value_heads=1, attention_k_eq_v=True)
    | dict(layer_types=["sliding_attention", "full_attention"], hidden_size_per_layer_input=0, enable_moe_block=True)
    | dict(num_experts=6, top_k_experts=3, moe_intermediate_size=48),
    "gemma4": dict(
        text_config=dict(GEMMA4, hidden_size_per_layer_input=16, vocab_size_per_layer_input=96)
        | dict(layer_types=["sliding_attention", "full_attention"]),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
        | dict(num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=64),
        audio_config=None,
    ),
    "gemma4_unified": dict(
        text_config=dict(GEMMA4, num_hidden_layers=4, num_kv_shared_layers=2, num_global_key_value_heads=1)
        | dict(layer_types=["sliding_attention", "full_attention"] * 2, attention_k_eq_v=True),
        vision_config=dict(
            patch_size=4, pooling_kernel_size=1, mm_embed_dim=64, mm_posemb_size=16, output_proj_dims=64
        ),
        audio_config=None,
    ),
    "smollm3": dict(LLAMA, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=6, pad_token_id=0),
    "phi": LLAMA,
    "phi3": dict(LLAMA, sliding_window=6, pad_token_id=0),
    "phi3-longrope": dict(
        LLAMA,
        pad_token_id=0,
        original_max_position_embeddings=24,
        rope_parameters=dict(
            rope_type="longrope",
            rope_theta=500.0,
            partial_rotary_factor=0.75,
            short_factor=[1.0, 1.02, 1.05, 1.1, 1.2, 1.3],
            long_factor=[1.0, 1.1, 1.4, 2.0, 3.0, 4.0],
        ),
    ),
    "phi3-partial": dict(LLAMA, pad_token_id=0, head_dim=24, partial_rotary_factor=0.5),
    "starcoder2": dict(LLAMA, sliding_window=6, use_bias=True),
    "gptj": dict(GPT, rotary_dim=8),
    "codegen": dict(GPT, n_head=4, rotary_dim=8, n_embd=64),
    "gpt_neox": dict(LLAMA, use_parallel_residual=True),
    "gpt_neox-sequential_yarn": dict(
        LLAMA,
        use_parallel_residual=False,
        rope_parameters=dict(rope_type="yarn", rope_theta=500.0, partial_rotary_factor=0.5)
        | dict(factor=8.0, original_max_position_embeddings=16),
    ),
    "gpt_neo": dict(vocab_size=96, hidden_size=32, num_layers=2, num_heads=2, max_position_embeddings=64)
    | dict(attention_types=[[["global", "local"], 1]], window_size=6, layer_norm_epsilon=EPSILON),
    "opt": dict(LLAMA, ffn_dim=96, word_embed_proj_dim=64),
    "opt-post_norm": dict(LLAMA, ffn_dim=96, word_embed_proj_dim=48, do_layer_norm_before=False),
    "biogpt": LLAMA,
    "bloom": dict(vocab_size=96, hidden_size=48, n_layer=2, n_head=3, layer_norm_epsilon=EPSILON),
    "gemma2": dict(
        LLAMA,
        head_dim=16,
        query_pre_attn_scalar=24,
        sliding_window=6,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0,
    ),
    "granite": dict(LLAMA, embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3)
    | dict(attention_multiplier=0.1, tie_word_embeddings=True),
    "granitemoehybrid": dict(LLAMA, embedding_multiplier=6.0, logits_scaling=2.0, residual_multiplier=0.3)
    | dict(attention_multiplier=0.1, layer_types=["attention"] * 2, num_local_experts=0, num_experts_per_tok=0)
    | dict(shared_intermediate_size=96, position_embedding_type="rope", tie_word_embeddings=True),
    "granitemoehybrid-mamba": dict(LLAMA, **MAMBA, num_hidden_layers=3, embedding_multiplier=6.0, logits_scaling=2.0)
    | dict(residual_multiplier=0.3, attention_multiplier=0.1, layer_types=["mamba", "attention", "mamba"])
    | dict(num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=96, tie_word_embeddings=True),
    "granitemoehybrid-experts": dict(LLAMA, **MAMBA, layer_types=["linear_attention", "full_attention"])
    | dict(embedding_multiplier=6.0, logits_scaling=2.0, residual_multiplier=0.3, attention_multiplier=0.1)
    | dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=48, shared_intermediate_size=80)
    | dict(mamba_n_groups=2),
    "granitemoehybrid-biases": dict(LLAMA, **MAMBA, layer_types=["mamba", "attention"], num_local_experts=0)
    | dict(num_experts_per_tok=0, shared_intermediate_size=96, position_embedding_type="rope", attention_bias=True)
    | dict(mamba_proj_bias=True, mamba_conv_bias=False, attention_multiplier=0.1, residual_multiplier=0.3),
    "falcon_h1": dict(LLAMA, **MAMBA, mamba_d_ssm=128, mamba_rms_norm=True, mamba_norm_before_gate=False)
    | dict(mamba_n_groups=2, embedding_multiplier=3.0, lm_head_multiplier=0.4, mlp_multipliers=[1.4, 0.6])
    | dict(key_multiplier=0.5, attention_in_multiplier=1.3, attention_out_multiplier=0.7, ssm_in_multiplier=0.8)
    | dict(ssm_multipliers=[0.6, 1.5, 0.7, 1.2, 1.7], ssm_out_multiplier=0.4),
    "falcon_h1-unnormed": dict(LLAMA, **MAMBA, mamba_d_ssm=None, ssm_out_multiplier=0.4)
    | dict(num_hidden_layers=1, tie_word_embeddings=True),
    "granite_swa": dict(LLAMA, num_hidden_layers=5, sliding_window=6, layer_rope_theta=[500.0, 0, 90.0, 500.0, 0])
    | dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3, attention_multiplier=0.1),
    "granitemoe_swa": dict(LLAMA, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=80)
    | dict(sliding_window=6, layer_types=["sliding_attention", "full_attention"], layer_rope_theta=[500.0, 0])
    | dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3, attention_multiplier=0.1),
    "hyperclovax": dict(LLAMA, embedding_multiplier=6.0, logits_scaling=0.4, attention_multiplier=0.1),
    "hyperclovax-no_post_norm": dict(LLAMA, use_post_norm=False, residual_multiplier=0.3, head_dim=20),
    "internlm3": dict(LLAMA, head_dim=20, qkv_bias=True, bias=True),
    "iquestcoder": dict(LLAMA, head_dim=20),
    "jais2": LLAMA,
    "mellum": dict(LLAMA, **EXPERTS, head_dim=16, num_experts=6, num_hidden_layers=3, sliding_window=6)
    | dict(layer_types=["sliding_attention", "full_attention", "full_attention"])
    | dict(mlp_layer_types=["dense", "sparse", "sparse"], num_mtp_layers=1)
    | dict(
        rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16),
            sliding_attention=dict(rope_type="default", rope_theta=90.0),
        )
    ),
    "cohere": dict(LLAMA, logit_scale=0.25, pad_token_id=0),
    "cohere2": dict(LLAMA, num_hidden_layers=4, logit_scale=0.25, sliding_window=6, pad_token_id=0),
    "glm": dict(LLAMA, head_dim=16, pad_token_id=0),
    "glm4": dict(LLAMA, head_dim=16, pad_token_id=0),
    "stablelm": dict(LLAMA, use_qkv_bias=True),
    "stablelm-parallel": dict(LLAMA, use_parallel_residual=True),
    "olmo_hybrid": dict(LLAMA, **DELTA, layer_types=["linear_attention", "full_attention"], pad_token_id=0),
    "bamba": dict(LLAMA, **MAMBA, attn_layer_indices=[1]),
    "mamba": dict(SELECTIVE, use_conv_bias=False, use_bias=True),
    "mamba2": dict(SELECTIVE, num_heads=8, head_dim=16, n_groups=2),
    "falcon_mamba": dict(SELECTIVE, time_step_rank=12, mixer_rms_eps=0.1),
    "jamba": dict(LLAMA, attn_layer_period=2, attn_layer_offset=1, num_experts=1, num_experts_per_tok=1)
    | dict(mamba_d_state=12, mamba_d_conv=3, mamba_expand=2, mamba_dt_rank=12),
    "jamba-experts": dict(LLAMA, attn_layer_period=2, attn_layer_offset=0, num_experts=6, intermediate_size=48)
    | dict(expert_layer_period=2, expert_layer_offset=1, mamba_d_state=12, mamba_conv_bias=False, mamba_proj_bias=True),
    "exaone": dict(LLAMA, head_dim=20, tie_word_embeddings=True),
    "exaone_moe": dict(LLAMA, **EXPERTS, head_dim=16, sliding_window=6, sliding_window_pattern=2)
    | dict(num_experts=8, n_group=4, topk_group=2, num_shared_experts=1, routed_scaling_factor=1.5),
    "exaone4": dict(LLAMA, sliding_window=None, layer_types=["full_attention", "full_attention"]),
    "exaone4-hybrid": dict(LLAMA, num_hidden_layers=4, sliding_window=6, sliding_window_pattern=4),
    "ernie4_5": dict(LLAMA, head_dim=20, use_bias=True),
    "seed_oss": dict(LLAMA, head_dim=20),
    "helium": dict(LLAMA, head_dim=16, pad_token_id=0),
    "falcon": dict(FALCON, multi_query=True),
    "falcon-grouped": dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, bias=True),
    "falcon-one_norm": dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1),
    "falcon-sequential": dict(FALCON, multi_query=False, parallel_attn=False),
    "mpt": dict(vocab_size=96, d_model=48, n_heads=3, n_layers=2, max_seq_len=64, layer_norm_epsilon=EPSILON),
    "openai-gpt": GPT,
    "qwen2_vl": dict(text_config=dict(LLAMA, rope_parameters=MROPE), vision_config=PATCHES, tie_word_embeddings=True),
    "qwen2_5_vl": dict(
        text_config=dict(LLAMA, rope_parameters=MROPE),
        vision_config=dict(hidden_size=16, intermediate_size=16, depth=1, num_heads=2, out_hidden_size=64),
    ),
    "lfm2": dict(LLAMA, num_hidden_layers=3, norm_eps=EPSILON, layer_types=["conv", "full_attention", "conv"]),
    "lfm2-biases": dict(LLAMA, num_hidden_layers=3, norm_eps=EPSILON, conv_bias=True, conv_L_cache=4)
    | dict(full_attn_idxs=[0], tie_word_embeddings=False),
    "lfm3": dict(LLAMA, num_hidden_layers=4, norm_eps=EPSILON, head_dim=16, sliding_window=6, conv_L_cache=5)
    | dict(layer_types=["conv", "sliding_attention", "full_attention", "conv"])
    | dict(rope_parameters=GEMMA4["rope_parameters"], pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "qwen3_5_text": dict(LLAMA, **DELTA, num_hidden_layers=4, head_dim=24)
    | dict(
        rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16)
        | dict(partial_rotary_factor=0.5)
    ),
    "qwen3_5": dict(
        text_config=dict(LLAMA, **DELTA, num_hidden_layers=2, head_dim=32, tie_word_embeddings=True)
        | dict(rope_parameters=MROPE | dict(mrope_interleaved=True, partial_rotary_factor=0.5))
        | dict(layer_types=["full_attention", "linear_attention"]),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64)
        | dict(num_position_embeddings=16),
        tie_word_embeddings=True,
    ),
    "qwen3_5_moe_text": dict(LLAMA, **DELTA, num_hidden_layers=2, num_experts=6, num_experts_per_tok=2, head_dim=32)
    | dict(moe_intermediate_size=48, shared_expert_intermediate_size=80, full_attention_interval=2),
    "qwen3_next": dict(LLAMA, **DELTA, num_hidden_layers=2, num_experts=8, num_experts_per_tok=3, head_dim=32)
    | dict(moe_intermediate_size=48, shared_expert_intermediate_size=80, full_attention_interval=2),
    "lfm2_moe": dict(LLAMA, num_hidden_layers=3, norm_eps=EPSILON, layer_types=["conv", "conv", "full_attention"])
    | dict(num_dense_layers=1, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48)
    | dict(use_expert_bias=True, norm_topk_prob=True),
    "qwen3_vl": dict(
        text_config=dict(LLAMA, head_dim=16, rope_parameters=MROPE | dict(mrope_interleaved=True)),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=64)
        | dict(deepstack_visual_indexes=[0], num_position_embeddings=16),
        tie_word_embeddings=True,
    ),
    "mistral3": dict(
        text_config=dict(LLAMA, model_type="mistral", head_dim=20, sliding_window=None),
        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1)
        | dict(num_attention_heads=2, image_size=28, patch_size=14),
    ),
    "olmo": dict(LLAMA, clip_qkv=1.5),
    "olmo2": dict(LLAMA, pad_token_id=0),
    "olmo3": dict(LLAMA, pad_token_id=0, num_hidden_layers=4, sliding_window=6)
    | dict(
        rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16),
            sliding_attention=dict(rope_type="default", rope_theta=500.0),
        )
    ),
    "apertus": dict(LLAMA, pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=500.0)),
    "apertus1p5_text": dict(LLAMA, vocab_size=128, output_vocab_size=96, pad_token_id=0),
    "persimmon": LLAMA,
    "nanochat": dict(LLAMA, final_logit_softcapping=3.0),
    "hunyuan_v1_dense": dict(
        LLAMA, head_dim=20, rope_parameters=dict(rope_type="dynamic", rope_theta=500.0, alpha=10.0, factor=1.0)
    ),
    "gpt_neox_japanese": dict(LLAMA, intermediate_multiple_size=2, bos_token_id=0, eos_token_id=1)
    | dict(rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)),
    "xglm": dict(vocab_size=96, d_model=48, num_layers=2, attention_heads=3, ffn_dim=64, max_position_embeddings=64),
    "ministral3": dict(LLAMA, head_dim=16, sliding_window=None)
    | dict(
        rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=32)
        | dict(mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, max_position_embeddings=64)
    ),
    "arcee": dict(LLAMA, mlp_bias=True),
    "nemotron_h": dict(BLOCKS, n_groups=2)
    | dict(layers_block_type=["mamba", "mlp", "mamba", "attention", "mlp", "mamba"]),
    "nemotron_h-biases": dict(BLOCKS, n_groups=1, layers_block_type=["mamba", "mlp", "mamba", "attention", "mlp"])
    | dict(use_conv_bias=False, use_bias=True, mlp_bias=True, attention_bias=True),
    "nemotron": dict(LLAMA, head_dim=16, norm_eps=EPSILON, hidden_act="relu2"),
    "ministral": dict(LLAMA, sliding_window=6, layer_types=["sliding_attention", "full_attention"], head_dim=16),
    "vaultgemma": dict(LLAMA, head_dim=16, query_pre_attn_scalar=24, sliding_window=6)
    | dict(attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
    "cwm": dict(LLAMA, num_hidden_layers=4, head_dim=16, sliding_window=6)
    | dict(
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0)
        | dict(high_freq_factor=4.0, original_max_position_embeddings=32)
    ),
    "olmoe": dict(LLAMA, num_experts=6, num_experts_per_tok=3, pad_token_id=0),
    "ernie4_5_moe": dict(LLAMA, moe_intermediate_size=48, moe_num_experts=6, moe_k=2, moe_num_shared_experts=1),
    "dots1": dict(LLAMA, **EXPERTS, head_dim=16, n_routed_experts=8, n_group=4, topk_group=2, n_shared_experts=1)
    | dict(first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5, sliding_window=None)
    | dict(num_key_value_heads=4),
    "flex_olmo": dict(LLAMA, intermediate_size=48, num_experts=6, num_experts_per_tok=3, pad_token_id=0),
    "hunyuan_v1_moe": dict(LLAMA, head_dim=20, intermediate_size=48, num_experts=6, moe_topk=2)
    | dict(rope_parameters=dict(rope_type="dynamic", rope_theta=500.0, alpha=10.0, factor=1.0)),
    "minimax_m2": dict(LLAMA, head_dim=16, intermediate_size=48, num_local_experts=6, num_experts_per_tok=2)
    | dict(rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)),
    "glm4_moe": dict(LLAMA, **EXPERTS, **GLM, use_qk_norm=True, num_nextn_predict_layers=0),
    "afmoe": dict(LLAMA, **EXPERTS, head_dim=16, num_experts=6, num_hidden_layers=4, sliding_window=6)
    | dict(num_shared_experts=1, num_dense_layers=1, route_scale=1.5, mup_enabled=True),
    "qwen3_moe": dict(LLAMA, **EXPERTS, head_dim=16, num_experts=8, norm_topk_prob=True),
    "qwen3_moe-mixed": dict(LLAMA, **EXPERTS, num_experts=6, num_hidden_layers=3, mlp_only_layers=[1])
    | dict(use_sliding_window=True, sliding_window=6),
    "granitemoe": dict(LLAMA, num_local_experts=6, num_experts_per_tok=3, tie_word_embeddings=True)
    | dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3, attention_multiplier=0.1),
    "granitemoeshared": dict(LLAMA, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=80)
    | dict(embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.3, attention_multiplier=0.1),
    "phimoe": dict(LLAMA, num_local_experts=6, attention_bias=True, lm_head_bias=True, sliding_window=6),
    "phimoe-longrope": dict(LLAMA, num_local_experts=6, router_jitter_noise=0.4, original_max_position_embeddings=32)
    | dict(
        rope_parameters=dict(rope_type="longrope", rope_theta=500.0, original_max_position_embeddings=32)
        | dict(short_factor=[1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5], short_mscale=1.3)
        | dict(long_factor=[1.0, 1.1, 1.4, 2.0, 3.0, 4.0, 5.0, 6.0], long_mscale=1.3)
    ),
    "deepseek_v2": dict(LLAMA, **LATENT, moe_intermediate_size=48, n_routed_experts=6, num_experts_per_tok=3)
    | dict(q_lora_rank=None, num_key_value_heads=4, first_k_dense_replace=1, n_shared_experts=1, **SHARPER)
    | dict(routed_scaling_factor=1.5),
    "deepseek_v3": dict(LLAMA, **LATENT, moe_intermediate_size=48, n_routed_experts=8, num_experts_per_tok=2)
    | dict(q_lora_rank=24, num_key_value_heads=4, first_k_dense_replace=1, n_group=4, topk_group=2, **SHARPER)
    | dict(attention_bias=True, routed_scaling_factor=1.5, num_nextn_predict_layers=0),
    **dict.fromkeys(("sarvam_moe", "solar_open"), dict(LLAMA, **EXPERTS, **GLM)),
    "glm4_moe_lite": dict(LLAMA, **LATENT, q_lora_rank=24, num_key_value_heads=4, moe_intermediate_size=48)
    | dict(n_routed_experts=6, num_experts_per_tok=3, mlp_layer_types=["sparse", "dense"], routed_scaling_factor=1.5)
    | dict(rope_parameters=cast(dict[str, object], SHARPER["rope_parameters"]) | dict(mscale=0.7)),
    "youtu": dict(LLAMA, **LATENT, q_lora_rank=None, num_key_value_heads=4, tie_word_embeddings=True),
    "minicpm3": dict(LLAMA, **LATENT, q_lora_rank=24, num_key_value_heads=4, scale_emb=6.0, scale_depth=0.8)
    | dict(dim_model_base=16, rms_norm_eps=0.05),
    "gpt_oss": dict(GPT_OSS, swiglu_limit=2.0, swiglu_alpha=1.2),
    "gpt_oss-mxfp4": GPT_OSS,
    "mixtral": dict(LLAMA, num_local_experts=4, num_experts_per_tok=2, sliding_window=6),
    "qwen2_moe-each": dict(LLAMA, **EXPERTS, num_experts=6, shared_expert_intermediate_size=80, norm_topk_prob=False),
    "qwen2_moe": dict(LLAMA, **EXPERTS, num_experts=6, shared_expert_intermediate_size=80, decoder_sparse_step=2),
}
"""Fields of config.json, by model type and, after a dash, what is special."""

T5: dict[str, object] = dict(model_type="t5", vocab_size=96, d_model=32, num_layers=2, num_heads=2, d_ff=48)
ENCODER_DECODERS: dict[str, dict[str, object]] = {
    "t5": dict(T5, d_kv=16, relative_attention_num_buckets=32, n_positions=160),
    "t5-flan": dict(T5, d_kv=8, num_decoder_layers=3, n_positions=40, feed_forward_proj="gated-gelu")
    | dict(relative_attention_num_buckets=8, relative_attention_max_distance=20, tie_word_embeddings=False)
    | dict(decoder_start_token_id=3),
    "t5-codet5": dict(T5, d_kv=24, n_positions=40, feed_forward_proj="relu", is_gated_act=False, dense_act_fn="relu")
    | dict(relative_attention_num_buckets=8, relative_attention_max_distance=16, layer_norm_epsilon=1e-5),
    "umt5": dict(T5, model_type="umt5", d_kv=8, n_positions=40, relative_attention_num_buckets=8)
    | dict(feed_forward_proj="gated-gelu", relative_attention_max_distance=20, tie_word_embeddings=False),
    "mt5": dict(T5, model_type="mt5", d_kv=8, n_positions=40, relative_attention_num_buckets=8)
    | dict(feed_forward_proj="gated-gelu", relative_attention_max_distance=20, tie_word_embeddings=False),
}
"""All of config.json, in the words of the Hub, by model type and, after a dash, what is special."""
