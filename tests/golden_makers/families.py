"""Make the tiny random checkpoints of tests/golden and their logits, with PyTorch and transformers.

PYTHONPATH=tests python -m golden_makers.families [CASE ...], with `pip install '.[verify]'`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from golden_makers.cases import CASES, ENCODER_DECODERS

os.environ["HF_HUB_OFFLINE"] = "1"
GOLDEN = Path(__file__).parents[1] / "golden"
ANSWERS = Path(__file__).parents[1] / "golden_answers"
LONG = {"bloom": 300}
"""Tokens of one more sequence, for positions that no table ends."""
MXFP4 = "gpt_oss-mxfp4"
"""The case whose experts are blocks and scales, as OpenAI publishes them."""
BUFFERS = "e_score_correction_bias", "expert_bias", "layer_scalar"
"""What checkpoints have beside parameters."""
PICTURES = "gemma4", "gemma4_unified", "qwen2_vl", "qwen2_5_vl", "qwen3_5", "qwen3_vl", "mistral3"
"""Types of which only the language model runs."""
BORDERS = {"phi3-longrope": (20, 32)}
"""Lengths of texts around the border beyond which positions turn otherwise: their last tokens' logits are kept."""
FAR = 150
"""Tokens of a prompt and an answer that are farther apart than T5's buckets tell."""


def randomise(model: PreTrainedModel, deviation: float) -> None:
    """Make every parameter random, and a bfloat16 number."""
    kept = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith(BUFFERS)]
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *kept]:
            is_scale = parameter.ndim == 1 and name.endswith(("weight", "layer_scalar", "router.scale", "expert_scale"))
            random = torch.randn_like(parameter) * (deviation if parameter.ndim > 1 else 0.1) + is_scale
            parameter.copy_(random.bfloat16())


def pack(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Put random blocks and scales of mxfp4 in the place of the experts' matrices, and return them by name."""
    found: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        if ".experts." in name and not name.endswith("_bias"):
            count, columns, rows = parameter.shape
            blocks = torch.randint(0, 256, (count, rows, columns // 32, 16), dtype=torch.uint8)
            scales = torch.randint(121, 126, (count, rows, columns // 32), dtype=torch.uint8)
            with torch.no_grad():
                parameter.copy_(convert_moe_packed_tensors(blocks, scales))
            found |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    return found


def publish(folder: Path, packed: dict[str, torch.Tensor]) -> None:
    """Put blocks and scales in the place of a checkpoint's matrices, and say so in its config.json."""
    path, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    matrices = {name.removesuffix("_blocks").removesuffix("_scales") for name in packed}
    kept = {name: tensor for name, tensor in load_file(path).items() if name not in matrices}
    save_file(kept | packed, path, {"format": "pt"})
    spared = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config["quantization_config"] = dict(modules_to_not_convert=spared, quant_method="mxfp4")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(case: str) -> None:
    """Write the checkpoint and its logits in float32."""
    torch.manual_seed(0)
    kind = case if case in CONFIG_MAPPING else case.split("-")[0]
    config = CONFIG_MAPPING[kind](**CASES[case])
    auto = AutoModelForImageTextToText if kind in PICTURES else AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager").eval().float()
    randomise(model, 0.2)
    packed = pack(model) if case == MXFP4 else {}
    vocab_size = min(model.get_input_embeddings().num_embeddings, model.get_output_embeddings().out_features)
    arrays: dict[str, Any] = {}  # Any: numpy takes arrays and a flag as keywords
    for name, shape in ("", (3, 24)), ("long_", (1, LONG.get(case, 0))):
        tokens = np.random.default_rng(0).integers(0, vocab_size, shape)
        if tokens.size:
            with torch.inference_mode():
                arrays |= {name + "tokens": tokens, name + "logits": model(torch.tensor(tokens)).logits.numpy()}
    if case in BORDERS:  # each text by itself, as `generate` reads it
        first, last = BORDERS[case]
        tokens = np.random.default_rng(1).integers(0, vocab_size, (2, last))
        with torch.inference_mode():
            found = [model(torch.tensor(tokens[:, :end])).logits[:, -1:] for end in range(first, last + 1)]
        arrays |= {"border_tokens": tokens, "border_logits": torch.cat(found, dim=1).numpy()}
    model.bfloat16().save_pretrained(GOLDEN / case)
    (GOLDEN / case / "generation_config.json").unlink(missing_ok=True)
    if packed:
        publish(GOLDEN / case, packed)
    if case == "olmo_hybrid":  # two norms that transformers calls alike
        path, norm = GOLDEN / case / "model.safetensors", "model.layers.1.feedforward_layer_norm.weight"
        saved = load_file(path)
        save_file(saved | {norm.replace("feedforward_layer_", "post_attention_layer"): saved.pop(norm)}, path)
    np.savez_compressed(GOLDEN / case / "golden.npz", **arrays)


def make_answers(case: str) -> None:
    """Write the checkpoint of an encoder-decoder, prompts, answers, and the logits of the answers' last 24 tokens."""
    torch.manual_seed(0)
    fields, folder = ENCODER_DECODERS[case], ANSWERS / case
    model = AutoModelForSeq2SeqLM.from_config(CONFIG_MAPPING[str(fields["model_type"])](**fields)).eval().float()
    if not fields.get("tie_word_embeddings", True):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        model.config.tie_word_embeddings = False  # UMT5's class says otherwise, and would scale the output
    randomise(model, 0.15)  # scores are not scaled: float32 itself is 1e-4 off when they are large
    length = FAR if case == "t5" else 40
    prompts, answers = np.random.default_rng(0).integers(0, 96, (2, 3, length))
    start = np.full((3, 1), fields.get("decoder_start_token_id", 0))
    fed = torch.tensor(np.concatenate([start, answers], axis=1))
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor(prompts), decoder_input_ids=fed).logits.numpy()
    model.bfloat16()
    folder.mkdir(parents=True, exist_ok=True)
    if case == "t5-codet5":  # with copies of the embedding
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    else:
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    np.savez_compressed(folder / "golden.npz", prompts=prompts, answers=answers, logits=logits[:, -24:])


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*CASES, *ENCODER_DECODERS]:
        make_answers(wanted) if wanted in ENCODER_DECODERS else make(wanted)
