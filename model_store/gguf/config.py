"""Convert the keys of a GGUF file to fields of config.json."""

import math
from typing import Any

import numpy as np

from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint
from model_store.gguf import architectures
from model_store.gguf.adjustments import Fields
from model_store.gguf.architectures import Architecture
from model_store.gguf.reader import Header

KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
}
"""Fields of config.json by key."""
ROPE = (
    "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"
)  # fmt: skip
UNIMPORTANT = (
    "vocab_size",
    "feed_forward_length",
    "rope.scaling.finetuned",
    "attention.causal",
    "tensor_data_layout",
    "rope.dimension_sections",
)
"""Keys that repeat what the tensors show, or hold for every supported model."""
FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""The tensors that are fields of config.json."""
LONGEST = 1 << 24
"""Longest credible context, in tokens."""
WIDEST = 1 << 12
"""Largest credible head."""
NO_MODEL = {
    "adapter": "an adapter for another model; merge the two, then convert the result",
    "mmproj": "an image encoder; use the file of its language model",
    "imatrix": "statistics for rounding, not a model; use the file of the model",
    "vocab": "a vocabulary without weights; use the file of the model",
}
"""Values of `general.type`."""


def config_of(header: Header, tensors: dict[str, Tensor]) -> Fields:
    """The fields of config.json; raises UnsupportedCheckpoint for what is missing, wrong or unknown."""
    try:
        refuse(header)
        return fields_of(header, tensors)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        what = f"the key {error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise UnsupportedCheckpoint(f"{header.path} cannot be used: {what}; use another conversion of it") from error


def refuse(header: Header) -> None:
    """Raise for a file that is not a whole model."""
    path, kind = header.path, header.metadata.get("general.type", "model")
    if isinstance(kind, str) and kind in NO_MODEL:
        raise UnsupportedCheckpoint(f"{path} is {NO_MODEL[kind]}")
    if int(number(header, "split.count") or 0) > 1:
        raise UnsupportedCheckpoint(
            f"{path} is one of {header.metadata['split.count']} parts of a model; join them with llama-gguf-split"
            " --merge, then import the result"
        )


def fields_of(header: Header, tensors: dict[str, Tensor]) -> Fields:
    """The fields of config.json."""
    name = header.metadata.get("general.architecture")
    architecture = architectures.find(name)
    known, prefix = {**KEYS, **architecture.keys}, f"{name}."
    config: Fields = {"model_type": architecture.model_type, "tie_word_embeddings": "output.weight" not in tensors}
    for key in header.metadata:
        short = key.removeprefix(prefix)
        if not key.startswith(prefix):
            continue
        found = header.metadata[key]
        if short == "attention.sliding_window_pattern" and isinstance(found, np.ndarray):
            config["layer_types"] = ["sliding_attention" if near else "full_attention" for near in found]
        elif short == "attention.head_count_kv" and architecture.without_keys and isinstance(found, np.ndarray):
            config["layer_types"] = ["full_attention" if heads else architecture.without_keys for heads in found]
            config[known[short]] = the_one(key, found[found != 0])
        elif short in architecture.each and isinstance(found, np.ndarray):
            config[architecture.each[short]] = found.tolist()
        elif short in known:
            config[known[short]] = number(header, key)
        elif short not in (*ROPE, *UNIMPORTANT, "attention.value_length") and is_asked_for(header, key):
            raise ValueError(f"nothing is known about the key {key}")
    check_sizes(config, {f"{prefix}{short}": field for short, field in KEYS.items()}, tensors)
    config["vocab_size"] = tensors["token_embd.weight"].shape[0]
    for spelling in ("layer_norm_eps", "norm_eps", "norm_epsilon"):  # other families' names
        config[spelling] = config.get("layer_norm_epsilon")
    if not architecture.latent:
        add_heads(config, architecture, header, prefix)
    config["rope_scaling"] = scaling(header, prefix, tensors)
    config["num_hidden_layers"] -= min(config.get("num_nextn_predict_layers", 0), config["num_hidden_layers"] - 1)
    if architecture.seen:
        config |= architecture.seen(tensors)
    if architecture.adjust:
        architecture.adjust(config)
    return {key: value for key, value in config.items() if value is not None}


def add_heads(config: Fields, architecture: Architecture, header: Header, prefix: str) -> None:
    """Add the heads' size and rotary part; raises for impossible ones."""
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    if number(header, prefix + "attention.value_length") not in (None, config["head_dim"]):
        raise ValueError("its keys and values differ in length (attention.key_length, attention.value_length)")
    rotary = number(header, prefix + "rope.dimension_count") or config["head_dim"]
    if rotary != config["head_dim"] and not architecture.partial:
        raise ValueError(f"it rotates {rotary} of {config['head_dim']} elements of a head (rope.dimension_count)")
    if not 0 < rotary <= config["head_dim"] or rotary % 2:
        raise ValueError(f"rope.dimension_count is {rotary}")
    if architecture.partial:  # the smallest share that gives as many elements again
        config[architecture.partial] = math.nextafter(rotary / config["head_dim"], 1)


def check_sizes(config: Fields, spelled: dict[str, str], tensors: dict[str, Tensor]) -> None:
    """Raise for impossible sizes, before anything is made of them."""
    for key, name in spelled.items():
        needed = name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
        if needed and name not in config:
            raise KeyError(key)
        if name in config and config[name] < 0:
            raise ValueError(f"{key} is {config[name]}")
    embedding = tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ValueError("it lacks the tensor token_embd.weight, a matrix")
    limits = {
        "hidden_size": embedding.shape[1],
        "num_hidden_layers": len(tensors),
        "num_attention_heads": embedding.shape[1],
        "num_key_value_heads": embedding.shape[1],
        "max_position_embeddings": LONGEST,
        "head_dim": WIDEST,
    }
    for name, limit in limits.items():
        if config.get(name, 0) > limit:
            raise ValueError(f"{config[name]:,} is too much for {name}, where {limit:,} are possible")


def is_asked_for(header: Header, key: str) -> bool:
    """Whether a key has a value other than 0, false or ""."""
    found = header.metadata[key]
    return bool(found.any()) if isinstance(found, np.ndarray) else bool(found)


def number(header: Header, key: str) -> Any:  # Any: int, float or bool, as the file has it
    """The number of `key`, or of an array with equal numbers; None if there is none."""
    found = header.metadata.get(key)
    if isinstance(found, np.ndarray):
        found = the_one(key, found)
    if isinstance(found, str | list) or (isinstance(found, float) and not math.isfinite(found)):
        raise ValueError(f"the key {key} should be a number")
    return found


def the_one(key: str, found: np.ndarray) -> Any:  # Any: int, float or bool
    """The only distinct number of an array."""
    if not len(found) or (found != found[0]).any():
        raise ValueError(f"the key {key} differs from layer to layer, which is not supported")
    return found[0].item()


def scaling(header: Header, prefix: str, tensors: dict[str, Tensor]) -> Fields | None:
    """The field `rope_scaling` of config.json."""
    kind = header.metadata.get(prefix + "rope.scaling.type", "linear")  # llama.cpp's default
    factor = number(header, prefix + "rope.scaling.factor") or number(header, prefix + "rope.scale_linear")
    freqs, *by_length = FACTORS
    if freqs in tensors and kind in ("linear", "none"):  # Llama 3.1: the scaling is a tensor
        stretch = (factor or 1) if kind == "linear" else 1
        factors = [one * stretch for one in factors_of(tensors, freqs)]
        return {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    if by_length[0] in tensors:
        long, short = (factors_of(tensors, name) for name in by_length)
        amplitude = number(header, f"{prefix}rope.scaling.attn_factor") or 1.0
        return {"rope_type": "longrope", "long_factor": long, "short_factor": short, "attention_factor": amplitude}
    if kind == "none" or (kind == "linear" and factor in (None, 0, 1)):
        return None
    if kind not in ("linear", "yarn") or not factor:
        raise ValueError(f"rotary positions scaled by {kind!r} and {factor} are not supported")
    return {"rope_type": kind, "factor": factor}


def factors_of(tensors: dict[str, Tensor], name: str) -> list[float]:
    """A small tensor as a list of divisors."""
    if name not in tensors or tensors[name].size > WIDEST:
        raise ValueError(f"the tensor {name} is missing or too large")
    factors = np.asarray(tensors[name].read(), np.float64).ravel()
    if not np.isfinite(factors).all() or (factors <= 0).any():
        raise ValueError(f"the tensor {name} has numbers that cannot divide")
    return [float(factor) for factor in factors]
