"""The models that are not run, refused by name from config.json, before any weight is read."""

import re
from fnmatch import fnmatchcase

from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.config_fields import check_fields, refuse_sizes
from model_store.errors import UnsupportedCheckpoint, cut, shown

TYPES = {
    "mixes experts in a way of its own": (
        "*moe*", "dbrx", "deepseek_v*", "dots1", "flex_olmo", "gpt_oss", "jetmoe", "kimi_k2*", "llama4*",
        "longcat_flash", "mimo_v2_flash", "minimax*", "switch_transformers",
    ),
    "keeps a recurrent state": (
        "bailing_hybrid", "bamba", "falcon_h1", "*mamba*", "jamba", "kimi_linear", "lfm2*", "nemotron_h", "olmo_hybrid",
        "qwen3_5*", "qwen3_next", "recurrent_gemma", "rwkv*", "xlstm", "zamba*",
    ),
    "reads or makes images or sound": (
        "*_asr*", "*_ocr*", "*_speech*", "*_vl", "*_vl_*", "*audio*", "*clip*", "*vision*", "*whisper*", "aria",
        "beit", "blip*", "chameleon", "convnext*", "deit", "dinov*", "emu3", "exaone4_5", "florence2", "fuyu",
        "gemma3n*", "gemma4*", "glm46v*", "glm4v*", "got_ocr2", "granite_docling*", "idefics*", "internvl", "janus",
        "kosmos*", "llava*", "mllama", "molmo*", "musicgen*", "ovis2", "paligemma", "phi4_multimodal", "pixtral",
        "qwen*omni*", "siglip*", "smolvlm", "speecht5", "swin*", "vit*", "voxtral*", "wav2vec2*",
    ),
    "reads text and writes none": (
        "*bert*", "albert", "deberta*", "electra", "esm", "mpnet", "xlm-roberta*", "xlnet",
    ),
}  # fmt: skip
"""Why a model of one of these types cannot run; the types are patterns."""

OTHERS = (
    "mistral4", "qwen", "t5gemma", "t5gemma2", "t5gemma2_text",
)  # fmt: skip
"""Types of other models, whose names are no slips for those of ours."""

FIELDS = {
    "add_cross_attention": "cross-attention",
    "apply_residual_connection_post_layernorm": "a residual taken after the norm",
    "attention_chunk_size": "attention in chunks",
    "qk_layernorm": "layer norms on queries and keys",
    "rope_interleaved": "rotary positions that turn neighbours",
    "use_bidirectional_attention": "attention to what comes later",
    "use_qk_norm": "layer norms on queries and keys",
    "use_mrope": "rotary positions in several dimensions",
}
"""What a field of config.json asks for when it is set, in the families that do run."""
ANSWERED = {("glm4_moe", "use_qk_norm"), ("hunyuan_v1_dense", "use_qk_norm"), ("persimmon", "qk_layernorm")}
"""The types that have what a field asks for."""

EXPERTS = "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"
MIXTURES = "ernie4_5_moe", "glm4_moe", "granitemoe", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"
"""Types that run with experts."""
TASK = re.compile(r"For([A-Z]\w*)$")
WRITES = "CausalLM", "ConditionalGeneration"
"""What a model that writes text is for, as the name of its class says."""


def refuse_type(config: Config) -> None:
    """Raise UnsupportedCheckpoint with the reason, for a type of model known not to run."""
    wanted = str(config.get("model_type"))
    for reason, patterns in TYPES.items():
        if any(fnmatchcase(wanted, pattern) for pattern in patterns):
            raise UnsupportedCheckpoint(f"models of type {cut(wanted)} are not supported: this one {reason}")
    if config.get("auto_map"):
        raise UnsupportedCheckpoint(
            f"models of type {cut(wanted)} are not supported: this one needs code of its publisher (auto_map in"
            " config.json), and nothing in a checkpoint is ever executed"
        )


def refuse(config: Config) -> None:
    """Raise UnsupportedCheckpoint for what a config.json of a known type asks for and no family has."""
    kind = config["model_type"]
    refuse_sizes(config)
    check_fields(config)
    if quantization := config.get("quantization_config"):
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else quantization
        raise UnsupportedCheckpoint(
            f"this checkpoint is rounded already (quantization_config in config.json: {str(method)[:40]}); take the"
            " publisher's checkpoint in bfloat16, float16 or float32, which is rounded here as you ask"
        )
    for name in EXPERTS:
        if kind not in MIXTURES and isinstance(config.get(name), int) and config[name] > 1:
            raise UnsupportedCheckpoint(
                f"{kind} with {shown(config[name])} experts ({name} in config.json) is not supported"
            )
    for name, meaning in FIELDS.items():
        if config.get(name) and (kind, name) not in ANSWERED:
            raise UnsupportedCheckpoint(f"{kind} with {meaning} ({name} in config.json) is not supported")
    for architecture in config.get("architectures") or ():
        task = TASK.search(str(architecture))
        if task and task[1] not in WRITES:
            raise UnsupportedCheckpoint(
                f"{architecture[:60]} (architectures in config.json) writes no text; take a checkpoint that ends in"
                " ForCausalLM"
            )
