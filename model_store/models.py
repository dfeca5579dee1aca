"""Models of the store, their variants, and their names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_store.errors import StoreError

BUILTIN = "builtin"
"""The name of the model shipped with the package."""
DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])(\..*)?", re.IGNORECASE)
"""Names of devices on Windows."""
RESERVED = ("blobs", "checkpoints")
"""Folders of a store that are no models."""
LARGE = 1_000_000_000
"""Models with at least this many parameters default to int4."""
MIXTURES = (
    "afmoe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo", "glm4_moe",
    "glm4_moe_lite", "gpt_oss", "granitemoe", "granitemoe_swa", "granitemoehybrid", "granitemoeshared",
    "hunyuan_v1_moe", "jamba", "lfm2_moe", "mellum", "minimax_m2", "mixtral", "olmoe", "phimoe", "qwen2_moe",
    "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_moe", "qwen3_next", "sarvam_moe", "solar_open",
)  # fmt: skip
"""Model types with experts."""


@dataclass(frozen=True)
class Variant:
    """A model lowered for one backend at one precision."""

    backend: str
    precision: str
    folder: Path
    size: int
    """Bytes on disk."""
    seconds: float
    """The time of lowering; 0 if it existed already."""
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Verdicts by device: `passed`, `date` and all else that `chatapp verify --json` prints."""

    signature: str = ""
    """What it was lowered for: versions of graph and runtime, and the processor where that matters."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """What made it (`by`), when (`time`), from which checkpoint (`of`, its fingerprint), and its `digest`."""

    def failed(self, device: str) -> bool:
        """Whether it failed verification on a device."""
        return not self.verdicts.get(device, {"passed": True})["passed"]


@dataclass(frozen=True)
class StoredModel:
    """A runnable model: a checkpoint, and its lowered variants."""

    name: str
    folder: Path
    """The checkpoint's folder: config.json, weights, and a vocabulary in some form."""
    family: str
    parameters: int
    context_length: int
    chats: bool
    """Whether it has a chat template; otherwise it continues texts."""
    size: int
    """Bytes of the checkpoint."""
    variants: tuple[Variant, ...] = ()
    own_precision: str = ""
    """The precision that the weights are rounded to already, or the nearest; "" if they are not rounded."""
    own_precision_reason: str = ""
    export: str = ""
    """The only backend that runs it, if it is an export by another program."""

    @property
    def precision(self) -> str:
        """The default precision."""
        return self.own_precision or usual_precision(self.parameters)

    @property
    def precision_reason(self) -> str:
        """Why, in a sentence."""
        if self.own_precision:
            return self.own_precision_reason
        if self.parameters >= LARGE:
            return "with a billion parameters or more, reading memory is the bottleneck, and 4 bits per weight halve it"
        return "below a billion parameters, 8 bits per weight are fast, and 4 would change the answers much more"


def usual_precision(parameters: int) -> str:
    """The default precision for that many parameters."""
    return "int4" if parameters >= LARGE else "int8"


def is_name(name: str) -> bool:
    """Whether `name` can be a model's name rather than a path."""
    return (
        name not in ("", ".", "..")
        and not name.startswith(".")
        and len(name.encode(errors="replace")) <= 200
        and not set(name) & set("/\\~:")
        and name.isprintable()
        and name.casefold() not in RESERVED
    )


def fault_of(name: str) -> str:
    """Why no new model can have this name; "" if one can. Older models may have such a name."""
    if name == BUILTIN:
        return "it is the name of the model that comes with chatapp"
    if name.casefold() in RESERVED:
        return "it is the name of a folder of the store"
    if not is_name(name):
        return "a name has letters, digits and signs other than / \\ ~ and :, no leading dot, and at most 200 bytes"
    if name.startswith("-"):
        return "it looks like an option"
    if DEVICES.fullmatch(name):
        return "it is a device name on Windows"
    if name.endswith((".", " ")) or name.startswith(" "):
        return "not all file systems allow a dot at the end or spaces around a name"
    return ""


def check_new_name(name: str) -> None:
    """Raise for a name that no new model can have."""
    if why := fault_of(name):
        raise StoreError(f"{name!r} cannot be the name of a model: {why}; choose another")
