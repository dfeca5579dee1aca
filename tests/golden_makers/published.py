"""Make tests/golden_published.npz: transformers' logits for shrunken published models, and for each field altered.

PYTHONPATH=tests python -m golden_makers.published [MODEL ...], with `pip install '.[verify]'`.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
)

from support.published_models import (
    ENCODER_DECODERS,
    GOLDEN,
    PUBLISHED,
    SHORT,
    Config,
    altered,
    context_of,
    is_first_of_its_kind,
    random_tensors,
    sample,
    shrunken,
    tokens_of,
)

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
FAITHFUL = 1e-5
"""How far transformers may be from itself, with a cache and without."""


def original(config: Config) -> Config:
    """The same model as transformers knows it; SantaCoder's first form needs code of its publisher."""
    if "attention_head_type" not in config:
        return {name: value for name, value in config.items() if name not in ("auto_map", "quantization_config")}
    dropped = "auto_map", "attention_head_type", "architectures"
    kept = {name: value for name, value in config.items() if name not in dropped}
    return {**kept, "model_type": "gpt_bigcode", "multi_query": True}


def automodel(config: Config) -> Any:  # Any: transformers' classes are not typed
    """The class that loads such a model."""
    if config["model_type"] in ENCODER_DECODERS:
        return AutoModelForSeq2SeqLM
    pictures = "vision_config" in config and config["model_type"] != "gemma3"
    return AutoModelForImageTextToText if pictures else AutoModelForCausalLM


def shapes_of(config: Config) -> dict[str, tuple[int, ...]]:
    """The tensors of a model as its publisher would save them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(config))
        automodel(config).from_config(AutoConfig.from_pretrained(folder)).float().save_pretrained(folder)
        with safe_open(folder / "model.safetensors", "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in list(file.keys())}


def split_names(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """GPT-BigCode's tensors as SantaCoder's first form has them."""
    split: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        reverse = shape[::-1] if ".attn." in name or ".mlp." in name else shape
        if ".attn.c_attn." in name:
            hidden = shapes["transformer.wte.weight"][1]
            rows = shape[0] - hidden
            split[name.replace("c_attn", "q_attn")] = (*reverse[:-1], hidden)
            split[name.replace("c_attn", "kv_attn")] = (*reverse[:-1], rows)
        else:
            split[name] = reverse
    return split


def joined(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """SantaCoder's tensors as GPT-BigCode has them."""
    whole = {}
    for name, values in tensors.items():
        turned = values.T if ".attn." in name or ".mlp." in name else values
        if ".q_attn." in name:
            turned = np.concatenate([turned, tensors[name.replace("q_attn", "kv_attn")].T])
        if ".kv_attn." not in name:
            whole[name.replace("q_attn", "c_attn")] = np.ascontiguousarray(turned)
    return whole


def load(config: Config, tensors: dict[str, np.ndarray]) -> PreTrainedModel:
    """The model that transformers makes of a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(config))
        save_file(
            {n: np.array(v, np.float32, order="C") for n, v in tensors.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )
        loading: Any = dict(
            attn_implementation="eager", experts_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
        model, found = automodel(config).from_pretrained(folder, **loading)
    wrong = {kind: names for kind, names in found.items() if names and "vision" not in str(names)}
    assert not wrong, wrong
    return settled(model, config)


def settled(model: PreTrainedModel, config: Config) -> PreTrainedModel:
    """The model as its config.json says; the class of UMT5 ties what that does not, and scales its output."""
    if config["model_type"] == "umt5":
        model.config.tie_word_embeddings = config["tie_word_embeddings"]
    return model.eval()


def varied(model: PreTrainedModel, config: Config) -> PreTrainedModel:
    """The same weights under another config.json."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "config.json").write_text(json.dumps(config))
        other = automodel(config).from_config(
            AutoConfig.from_pretrained(name),
            attn_implementation="eager",
            experts_implementation="eager",
            dtype=torch.float32,
        )
    other.load_state_dict(model.state_dict())
    return settled(other, config)


def logits_of(model: PreTrainedModel, tokens: np.ndarray) -> np.ndarray:
    """The logits (T, vocab) of all tokens; T5 reads them and writes them."""
    given = torch.tensor(tokens)
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            start = torch.full((1, 1), model.config.decoder_start_token_id)
            found = model(input_ids=given, decoder_input_ids=torch.cat([start, given], dim=1)).logits
        else:
            found = model(given, use_cache=False).logits
    return np.asarray(found[0].numpy())


def check_cache(model: PreTrainedModel, tokens: np.ndarray, expected: np.ndarray) -> None:
    """Let transformers decode with a cache: what is golden must not be an accident of reading all at once."""
    given, cache = torch.tensor(tokens), None
    with torch.inference_mode():
        for i in range(tokens.shape[1]):
            out = model(given[:, i : i + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            error = np.abs(out.logits[0, -1].numpy() - expected[i]).max()
            assert error < FAITHFUL * max(1, np.abs(expected).max()), (i, error)


def moves(logits: np.ndarray, others: np.ndarray) -> bool:
    """Whether they differ by more than arithmetic."""
    return bool(np.abs(logits - others).max() > 1e-3 * np.abs(others).max())


def make(name: str) -> dict[str, np.ndarray]:
    """All that is golden about a model."""
    config = shrunken(PUBLISHED[name])
    shapes, tokens, split = shapes_of(original(config)), tokens_of(config), "attention_head_type" in config
    shapes = split_names(shapes) if split else shapes
    random = random_tensors(shapes)
    tensors = joined(random) if split else random
    model = load(original(config), tensors)
    short, long = logits_of(model, tokens[:, :SHORT]), logits_of(model, tokens)
    scaling = config.get("rope_scaling") or {}
    cached = not model.config.is_encoder_decoder and config["model_type"] != "openai-gpt"
    if "long_factor" not in scaling and cached:
        check_cache(model, tokens, long)
    labels, rows = [], []
    for label, other in altered(config) if is_first_of_its_kind(name) and not split else ():
        try:
            rows.append(sample(logits_of(varied(model, original(other)), tokens)))
            labels.append(label)
        except Exception as error:
            print(f"  {name}: {label}: {type(error).__name__} {str(error)[:90]!r}")
    moved = [label for label, row in zip(labels, rows, strict=True) if moves(row, sample(long))]
    print(
        f"{name} ({context_of(config)}, largest {np.abs(long).max():.1f}): {len(labels)} altered, {', '.join(moved)}",
        flush=True,
    )
    facts = {"shapes": shapes, "altered": labels}
    return {
        "short": short,
        "long": long,
        "altered": np.array(rows, np.float32),
        "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8),
    }


if __name__ == "__main__":
    # Any: numpy takes arrays and a flag as keywords
    kept: dict[str, Any] = dict(np.load(GOLDEN)) if sys.argv[1:] and GOLDEN.exists() else {}
    for wanted in sys.argv[1:] or PUBLISHED:
        kept |= {f"{wanted}/{part}": values for part, values in make(wanted).items()}
    np.savez_compressed(GOLDEN, **{name: kept[name] for name in sorted(kept)})
