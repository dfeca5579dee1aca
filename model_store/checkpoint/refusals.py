"""Refuse unsupported models by name, from config.json, before any weight is read."""

import re
from fnmatch import fnmatchcase

from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.config_fields import check_fields, refuse_sizes
from model_store.checkpoint.rounded import refuse_rounded
from model_store.errors import UnsupportedCheckpoint, cut, shown
from model_store.models import MIXTURES

LATENT = "attends through latents (multi-head latent attention) in a way of its own"
EXPERT = "mixes experts in a way of its own"
RECURRENT = "keeps a recurrent state"
SENSES = "reads or makes images or sound"
TYPES = {
    LATENT: ("deepseek_v*", "glm_moe_dsa", "kimi_k2*", "longcat_flash"),
    EXPERT: (
        "*moe*", "dbrx", "jetmoe", "llama4*", "mimo_v2_flash", "minimax*", "switch_transformers",
    ),
    RECURRENT: (
        "bailing_hybrid", "*mamba*", "kimi_linear",
        "recurrent_gemma", "rwkv*", "xlstm", "zamba*",
    ),
    "drafts for another model, whose keys and values it reads": ("gemma4*_assistant",),
    SENSES: (
        "*_asr*", "*_ocr*", "*_speech*", "*_vl", "*_vl_*", "*audio*", "*clip*", "*detr*", "*image*", "*video*",
        "*vision*", "*whisper*", "aria", "bark", "beit", "blip*", "*bridgetower*", "*chameleon*", "colpali", "colqwen2",
        "convnext*", "csm*", "deit", "dinov*", "donut*", "dpt", "emu3*", "encodec", "evolla", "exaone4_5", "fast_vlm",
        "flava*", "florence2", "fuyu", "git", "glm46v*", "glm4v*", "got_ocr2", "granite_docling*", "grounding-dino",
        "hubert", "idefics*", "instructblip*", "internvl", "janus*", "kosmos*", "*llava*", "mask*former*", "mimi*",
        "minicpm[ov]*", "mllama*", "modernvbert", "colmodernvbert", "molmo*", "moshi*", "musicgen*", "nougat", "ovis*",
        "owl*", "paligemma*", "perception_lm", "phi4_multimodal", "pi0", "pix2struct*", "pixtral", "qwen*omni*", "sam",
        "sam[23_]*", "seamless*", "segformer", "siglip*", "smolvlm", "speech*", "swin*", "trocr", "udop", "vibevoice*",
        "vilt", "visual_bert", "vit*", "voxtral*", "wav2vec2*", "wavlm",
    ),
    "reads text and writes none": (
        "*bert*", "big_bird", "deberta*", "dpr", "electra", "embedding_gemma*", "ernie", "esm*", "funnel", "gte",
        "jina_*", "layoutlm*", "longformer", "luke", "mpnet", "roformer", "xlm-roberta*", "xlnet", "xmod",
    ),
    "has an encoder of another kind than T5's": (
        "*bart", "*pegasus*", "blenderbot*", "encoder-decoder", "fsmt", "led", "longt5", "m2m_100", "marian", "mvp",
        "nllb*", "prophetnet", "t5gemma*",
    ),
    "forecasts numbers": ("autoformer", "informer", "patchts*", "time_series*", "timesfm*"),
}  # fmt: skip
"""Why model types, as patterns, cannot run."""

OTHERS = "bert-generation", "mistral4", "modernbert-decoder", "qwen", "xlm"
"""Other models' types, which are no misspellings of ours, and whose names give no reason."""

TELLING = {
    "kv_lora_rank": LATENT,
    **dict.fromkeys(("mamba_d_state", "ssm_cfg", "state_size", "conv_L_cache", "linear_num_value_heads"), RECURRENT),
    **dict.fromkeys(("vision_config", "visual", "audio_config", "mm_vision_tower", "img_processor"), SENSES),
    "is_encoder_decoder": "has an encoder of another kind than T5's",
}
"""Fields of config.json that, when set in models of unknown types, tell why these cannot run."""

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
"""What a set field of config.json asks for, in known families."""
ANSWERED = {
    ("gemma4_text", "num_experts"), ("gemma4_text", "use_bidirectional_attention"), ("glm4_moe", "use_qk_norm"),
    ("hunyuan_v1_dense", "use_qk_norm"), ("hunyuan_v1_moe", "use_qk_norm"), ("minimax_m2", "use_qk_norm"),
    ("nemotron_h", "n_routed_experts"), ("persimmon", "qk_layernorm"), ("sarvam_moe", "use_qk_norm"),
}  # fmt: skip
"""The types that support what a field asks for, or have another meaning for it."""

EXPERTS = "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"
TASK = re.compile(r"For([A-Z]\w*)$")
WRITES = "CausalLM", "ConditionalGeneration"
"""The tasks, in names of classes, of models that write text."""


def refuse_type(config: Config) -> None:
    """Raise UnsupportedCheckpoint with the reason, for a type known not to run."""
    wanted = str(config.get("model_type"))
    if reason := named_reason(wanted) or told_reason(config):
        raise UnsupportedCheckpoint(f"models of type {cut(wanted)} are not supported: this one {reason}")
    if config.get("auto_map"):
        raise UnsupportedCheckpoint(
            f"models of type {cut(wanted)} are not supported: this one needs code of its publisher (auto_map in"
            " config.json), and nothing in a checkpoint is ever executed"
        )
    refuse_task(config)


def named_reason(wanted: str) -> str:
    """Why a type cannot run, by its name; "" if that does not tell."""
    found = (reason for reason, patterns in TYPES.items() if any(fnmatchcase(wanted, each) for each in patterns))
    return "" if wanted in OTHERS else next(found, "")


def told_reason(config: Config) -> str:
    """Why a model cannot run, by a field of its config.json, and the field."""
    text = config.get("text_config")
    fields = {**text, **config} if isinstance(text, dict) else config
    for name, reason in TELLING.items():
        if fields.get(name):
            return f"{reason} ({name} in config.json)"
    for name in EXPERTS:
        if isinstance(fields.get(name), int) and fields[name] > 1:
            return f"{EXPERT} ({name} in config.json)"
    return ""


def refuse_task(config: Config) -> None:
    """Raise UnsupportedCheckpoint for a model whose class is for another task than writing text."""
    named = config.get("architectures")
    for architecture in named if isinstance(named, list) else ():
        task = TASK.search(str(architecture))
        if task and task[1] not in WRITES:
            raise UnsupportedCheckpoint(
                f"{str(architecture)[:60]} (architectures in config.json) writes no text; use a checkpoint that ends"
                " in ForCausalLM"
            )


def refuse(config: Config) -> None:
    """Raise UnsupportedCheckpoint for what a config.json of a known type asks for and no family supports."""
    kind = config["model_type"]
    refuse_sizes(config)
    check_fields(config)
    refuse_rounded(kind, config.get("quantization_config"))
    for name in EXPERTS:
        if (
            kind not in MIXTURES
            and (kind, name) not in ANSWERED
            and isinstance(config.get(name), int)
            and config[name] > 1
        ):
            raise UnsupportedCheckpoint(
                f"{kind} with {shown(config[name])} experts ({name} in config.json) is not supported"
            )
    for name, meaning in FIELDS.items():
        if config.get(name) and (kind, name) not in ANSWERED:
            raise UnsupportedCheckpoint(f"{kind} with {meaning} ({name} in config.json) is not supported")
    refuse_task(config)
