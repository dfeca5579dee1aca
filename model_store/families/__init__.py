"""One module per `model_type` of config.json: its decoder, and where its weights are."""

import math
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from backends.decoder import Activation, Rope
from model_store.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.weights import Family

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def find(config: Config) -> Family:
    """The family of a checkpoint, by its `model_type`."""
    wanted = config.get("model_type")
    known = [module.name for module in iter_modules(__path__)]
    if wanted in known:
        return cast(Family, import_module(f"{__name__}.{wanted}"))  # a module that meets the protocol
    near = get_close_matches(str(wanted), known, 1)
    hint = f"; did the publisher mean {near[0]!r}?" if near else ""
    raise UnsupportedCheckpoint(f"models of type {wanted!r} are not supported{hint} (known: {', '.join(known)})")


def activation(name: str) -> Activation:
    """The activation that Hugging Face calls `name`."""
    if name not in ACTIVATIONS:
        raise UnsupportedCheckpoint(f"the activation {name!r} is not supported (known: {', '.join(ACTIVATIONS)})")
    return ACTIVATIONS[name]


def rope(config: Config, head_dim: int, *, partial: float = 1.0) -> Rope:
    """Rotary positions, on the first `partial` of each head, with the scaling that the checkpoint was trained for.

    Reads `rope_parameters` as well as the older spellings.
    """
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = scaling.get("rope_theta") or config.get("rope_theta") or config.get("rotary_emb_base") or 10_000.0
    shares = (where.get(name) for where in (scaling, config) for name in ("partial_rotary_factor", "rotary_pct"))
    share = next((share for share in shares if share is not None), partial)
    rotary = config.get("rotary_dim") or int(head_dim * share)
    frequencies = [theta ** (-2 * i / rotary) for i in range(rotary // 2)]
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "linear":
        frequencies = [frequency / scaling["factor"] for frequency in frequencies]
    elif kind == "llama3":
        frequencies = [llama3(frequency, scaling) for frequency in frequencies]
    elif kind != "default":
        raise UnsupportedCheckpoint(f"rotary positions scaled by {kind!r} are not supported")
    return Rope((*frequencies, *(0.0,) * ((head_dim - rotary) // 2)))


def llama3(frequency: float, scaling: Config) -> float:
    """Llama 3.1's scaling: slow turns stretched, fast ones kept, a ramp between.

    `_compute_llama3_parameters` in transformers' modeling_rope_utils.
    """
    turns = float(scaling["original_max_position_embeddings"]) * frequency / (2 * math.pi)
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    kept = min(1.0, max(0.0, (turns - low) / (high - low)))
    return frequency * (kept + (1 - kept) / float(scaling["factor"]))
