"""Writes a checkpoint as a Hugging Face model folder and checks it against transformers."""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import argparse
import json
import shutil
from pathlib import Path

import torch
from model import Config, Model, read_model
from safetensors.torch import save_file
from tokenizer import END, PAD, SPECIAL
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from backends import quantize
from model_store.checkpoint import int8

TOLERANCE = 2e-3
SAMPLING = {
    "do_sample": True,
    "temperature": 0.2,
    "min_p": 0.1,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "dry_breakers": [],
    "dry_whole_words": True,
    "file_start": 1,
    "indentation": 1,
    "stop_at_dedent": 1,
    "stop_strings": ["\n\n\n"],
}
"""What such a small model needs in order not to go round in circles, and to end; free_text.py measures it."""


def load(checkpoint: Path) -> Model:
    """Reads a checkpoint of train.py."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model = Model(Config(**state["config"]))
    model.load_state_dict(state["weights"])
    return model.eval()


def description(config: Config, precision: str) -> dict[str, object]:
    """Gives config.json."""
    rounded = {"torch_dtype": "float32", "quantization_config": int8.CONFIG}
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.vocabulary,
        "hidden_size": config.dim,
        "intermediate_size": config.ffn,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.dim // config.heads,
        "hidden_act": "silu",
        "max_position_embeddings": config.context,
        "rope_theta": config.theta,
        "rms_norm_eps": config.epsilon,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": END,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "torch_dtype": "float16",
    } | (rounded if precision == "int8" else {})


def in_float16(model: Model) -> dict[str, Tensor]:
    """Gives all weights as they are stored in float16."""
    return {f"model.{name}": weight.detach().half().contiguous() for name, weight in model.state_dict().items()}


def in_int8(model: Model) -> dict[str, Tensor]:
    """Gives matrices as the integers and scales that the product computes with, and vectors in float32."""
    found = {f"model.{name}": weight.detach().float().contiguous() for name, weight in model.state_dict().items()}
    for name, weight in list(found.items()):
        if weight.dim() == 2:
            rounded = quantize.rounded(weight.numpy(), quantize.PRECISIONS["int8"])
            found |= {name: torch.from_numpy(rounded.values), name + int8.SCALE: torch.from_numpy(rounded.scales)}
    return found


def write(model: Model, work: Path, out: Path, precision: str = "f16") -> None:
    """Writes weights in float16 or int8, configuration and tokenizer."""
    out.mkdir(parents=True, exist_ok=True)
    weights = in_int8(model) if precision == "int8" else in_float16(model)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(description(model.config, precision), indent=2) + "\n")
    generation = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD} | SAMPLING
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(work / name, out / name)


@torch.no_grad()
def difference(model: Model, out: Path, text: str) -> float:
    """Compares transformers' logits over the whole context with our own, largest difference first."""
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    if [tokenizer.token_to_id(token) for token in SPECIAL] != list(range(len(SPECIAL))):
        raise SystemExit(f"special tokens in {out}/tokenizer.json do not have the ids expected")
    ids = torch.tensor([tokenizer.encode(text).ids[: model.config.context]])
    exported, config = read_model(out), LlamaConfig.from_pretrained(out)
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # read without a library for rounded checkpoints
    weights = {f"model.{name}": weight for name, weight in exported.state_dict().items()}
    transformers = LlamaForCausalLM.from_pretrained(None, config=config, state_dict=weights, dtype=torch.float32)
    reference: Tensor = transformers(ids).logits
    return float((exported.logits(exported.hidden(ids)) - reference).abs().max())


def main() -> None:
    """Parses the command line, exports and checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--precision", choices=("f16", "int8"), default="f16")
    arguments = parser.parse_args()
    model = load(arguments.run / "state.pt")
    write(model, arguments.work, arguments.out, arguments.precision)
    found = difference(model, arguments.out, Path(__file__).with_name("samples.py").read_text())
    size = sum(file.stat().st_size for file in arguments.out.iterdir())
    print(f"{arguments.out}: {size / 1e6:.1f} MB, largest difference from transformers {found:.1e}")
    if found > TOLERANCE:
        raise SystemExit("transformers computes something else: the export is wrong")


if __name__ == "__main__":
    main()
