"""One module per `model_type` of config.json: its decoder, and where its weights are."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

from backends.decoder import Activation, Decoder, Rope
from backends.suggest import suggest
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.refusals import OTHERS, refuse, refuse_type
from model_store.checkpoint.weights import Family
from model_store.errors import UnsupportedCheckpoint, cut

VARIANTS = {
    ("gpt2", "attention_head_type", "multiquery"): "santacoder",
    ("opt", "do_layer_norm_before", False): "opt_post_norm",
}
"""Modules for models that share a `model_type` with others: (type, field, value) -> module."""
FILES = {"openai-gpt": "openai_gpt"}
"""Types that cannot be the name of a module."""

SLIP = 0.8
"""Similarity of two names, 0 to 1, from which one may be a slip for the other."""
ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}


@cache
def names() -> tuple[str, ...]:
    """Every known `model_type`."""
    types = {name: kind for kind, name in FILES.items()}
    modules = [module.name for module in iter_modules(__path__) if module.name not in VARIANTS.values()]
    return tuple(types.get(name, name) for name in modules)


def find(config: Config) -> Family:
    """The family of a checkpoint, by its `model_type`."""
    wanted = config.get("model_type")
    known = names()
    if wanted in known:
        refuse(config)
        variants = [name for (kind, key, value), name in VARIANTS.items() if (kind, value) == (wanted, config.get(key))]
        name = variants[0] if variants else FILES.get(wanted, wanted)
        return cast(Family, import_module(f"{__name__}.{name}"))  # modules meet the protocol
    refuse_type(config)
    near = "" if wanted in OTHERS else suggest(wanted, known, who="the publisher", near=SLIP)
    hint = f"; {near}" if near else ""
    raise UnsupportedCheckpoint(
        f"models of type {cut(wanted)} are not supported{hint}; docs/models.md lists the {len(known)} that are"
    )


def activation(name: str) -> Activation:
    """The activation that Hugging Face calls `name`."""
    if name not in ACTIVATIONS:
        raise UnsupportedCheckpoint(f"the activation {cut(name)} is not supported (known: {', '.join(ACTIVATIONS)})")
    return ACTIVATIONS[name]


def field(config: Config, *spellings: str) -> Any:  # Any: config.json's
    """The first field of config.json with one of these names."""
    return config[next((name for name in spellings if config.get(name) is not None), spellings[0])]


def given(config: Config) -> Config:
    """The fields of config.json that are not null."""
    return {name: value for name, value in config.items() if value is not None}


def with_defaults(decoder: Callable[[Config], Decoder], defaults: Config) -> Callable[[Config], Decoder]:
    """A family's `decoder` with defaults for fields that config.json may leave out."""
    return lambda config: decoder({**defaults, **config})


def alternate(config: Config, count: int, period: int) -> list[str]:
    """The kinds of layers with one full layer in `period`, or as `sliding_window_pattern` says, 6 or LLLG."""
    said = config.get("sliding_window_pattern")
    every = period if said is None else len(said) if isinstance(said, str) else said
    return ["sliding_attention" if every and (i + 1) % every else "full_attention" for i in range(count)]


def windows(config: Config, default: Sequence[str], window: int | None) -> list[int]:
    """Each layer's window, 0 for none, by `layer_types` of config.json or else by `default`."""
    kinds = kinds_of(config, default, "sliding_attention")
    return [(window or 0) if kind == "sliding_attention" else 0 for kind in kinds]


def with_windows(same: Decoder, each: Sequence[int], ropes: tuple[Rope | None, Rope | None] | None = None) -> Decoder:
    """The decoder with these windows, 0 for none; `ropes` are for layers without a window, and with one."""
    far, near = ropes or (same.layers[0].rope,) * 2
    layers = (replace(same.layers[0], window=window, rope=near if window else far) for window in each)
    return replace(same, layers=tuple(layers))


def kinds_of(config: Config, default: Sequence[str], *others: str) -> Sequence[str]:
    """Each layer's kind, full attention or another, by `layer_types` of config.json or else by `default`."""
    kinds: Sequence[str] = config.get("layer_types") or default
    if len(kinds) != len(default):
        raise ValueError(f"layer_types names {len(kinds)} layers, there are {len(default)}")
    if unknown := sorted({*map(str, kinds)} - {"full_attention", *others}):
        raise UnsupportedCheckpoint(f"layers of the kind {cut(unknown[0])} (layer_types) are not supported")
    return kinds


def sparse_layers(config: Config, count: int, default: Sequence[int]) -> tuple[int, ...]:
    """The indices of layers with experts, of `count`, by `mlp_layer_types` of config.json or else `default`."""
    kinds = config.get("mlp_layer_types")
    if kinds is None:
        return tuple(default)
    if len(kinds) != count or not {*kinds} <= {"dense", "sparse"}:
        raise ValueError(f"mlp_layer_types should say dense or sparse of each of {count} layers")
    return tuple(i for i, kind in enumerate(kinds) if kind == "sparse")
