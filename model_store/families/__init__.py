"""One module per `model_type` of config.json: its decoder, and where its weights are."""

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from backends.decoder import Activation
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
