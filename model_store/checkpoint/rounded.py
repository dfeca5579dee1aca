"""Rounded checkpoints: which `quantization_config` are supported, and how their tensors are joined."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from model_store.checkpoint import bitsandbytes, fp8, int8, mxfp4, nvfp4, packed, ternary
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint, cut

Fields = Mapping[str, Any]
"""Fields of config.json."""

ACTIVATIONS: Fields = {"num_bits": {8}, "type": {"int"}, "symmetric": {True}, "strategy": {"token"}, "dynamic": {True}}
"""Activations rounded per token at run time, as here."""
SCHEMES: Mapping[str, Fields] = {
    "int-quantized": {"num_bits": {8}, "type": {"int"}, "symmetric": {True}, "strategy": {"channel"}},
    "float-quantized": {
        "num_bits": {8}, "type": {"float"}, "symmetric": {True}, "strategy": {"tensor", "channel", "block"},
        "block_structure": None,
    },
    "pack-quantized": {
        "num_bits": {4, 8}, "type": {"int"}, "symmetric": {True, False}, "strategy": {"channel", "group"},
        "group_size": None, "actorder": None,
    },
    "nvfp4-pack-quantized": {
        "num_bits": {4}, "type": {"float"}, "symmetric": {True}, "strategy": {"tensor_group"}, "group_size": {16},
    },
}  # fmt: skip
"""The values that compressed-tensors' formats have for weights; None: any, as tensors tell."""
ROUNDS_ACTIVATIONS = "float-quantized", "nvfp4-pack-quantized"
"""Formats whose rounding of activations is left out here, so that these are more exact."""
NAIVE = {"int": "int-quantized", "float": "float-quantized"}
"""What `naive-quantized` means, by the type of weights."""
MAKING = {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"}
"""How scales were found and stored, which does not matter for reading."""
ANY = {
    "config_groups", "dequantize", "format", "global_compression_ratio", "ignore", "quant_method",
    "quantization_status", "version",
}  # fmt: skip
"""Fields that do not matter for reading: tensors tell what is rounded."""

BESIDE = re.compile(r".*\.(activation_scale|input_scale|input_global_scale|[kv]_scale)")
"""Tensors about rounding activations and caches."""


def refuse_rounded(kind: str, quantization: object) -> None:
    """Raise UnsupportedCheckpoint unless a quantization_config is supported for this model type."""
    if not quantization:
        return
    fields = quantization if isinstance(quantization, dict) else {}
    method = str(fields.get("quant_method", "unknown") if fields else quantization)[:40]
    if fields and method in METHODS:
        if not (unread := METHODS[method](kind, fields)):
            return
        method += f", because of {cut(unread)}"
    raise UnsupportedCheckpoint(
        "this checkpoint is rounded already, and not in a way that is read (quantization_config in config.json:"
        f" {method}); use one that docs/formats.md lists, or the publisher's in bfloat16, float16 or float32, which is"
        " rounded here as you ask"
    )


def unlike(fields: Fields, wanted: Fields) -> str:
    """The first field with none of its wanted values; "" if there is none."""
    return next((name for name, values in wanted.items() if fields.get(name) not in values), "")


def unread_tile(kind: str, fields: Fields) -> str:
    """The field of the tiles' size if it is not a size."""
    tile = fields.get("weight_block_size")
    sizes = isinstance(tile, list) and len(tile) == 2 and all(type(n) is int and n > 0 for n in tile)
    return "" if tile is None or sizes else "weight_block_size"


def unread_groups(kind: str, fields: Fields) -> str:
    """The first field of compressed-tensors that is not supported; "" if there is none."""
    groups = fields.get("config_groups")
    more = [name for name, value in fields.items() if value and name not in ANY]  # what else may be done to a model
    if more or not isinstance(groups, dict) or not groups:
        return next(iter(more), "config_groups")
    return next(filter(None, (unread_group(group, fields.get("format")) for group in groups.values())), "")


def unread_group(group: object, usual: object) -> str:
    """The same for a group of matrices, in its own format or the `usual` one."""
    if not isinstance(group, dict):
        return "config_groups"
    asked = {name: value for name, value in group.items() if name not in ("targets", "format")}
    weights, activations = asked.pop("weights", None), asked.pop("input_activations", None)
    named = group.get("format") or usual
    if named == "naive-quantized" and isinstance(weights, dict):
        named = NAIVE.get(str(weights.get("type")))
    if not isinstance(named, str) or named not in SCHEMES:
        return "format"
    schemes: dict[str, tuple[object, Fields]] = {"weights": (weights, {"dynamic": {False}, **SCHEMES[named]})}
    if activations is not None and named not in ROUNDS_ACTIVATIONS:
        schemes["input_activations"] = activations, ACTIVATIONS
    unread = [unread_scheme(part, *both) for part, both in schemes.items()]
    return next(filter(None, [*unread, *(name for name, value in asked.items() if value)]), "")


def unread_scheme(part: str, stated: object, wanted: Fields) -> str:
    """The same for a scheme: each field must have a wanted value, and null counts as absent."""
    if not isinstance(stated, dict):
        return part
    said = {"dynamic": False} | {name: value for name, value in stated.items() if value is not None}
    lacking = [name for name, known in wanted.items() if known is not None and name not in said]
    other = [
        name
        for name, value in said.items()
        if name not in MAKING and not (name in wanted and (wanted[name] is None or value in (*wanted[name],)))
    ]
    return next((f"{name} in {part}" for name in [*lacking, *other]), "")


METHODS: Mapping[str, Callable[[str, Fields], str]] = {
    "awq": lambda kind, fields: unlike(fields, {"bits": (4,), "version": ("gemm", "GEMM", None)}),
    "bitnet": lambda kind, fields: "" if ternary.fits(kind, fields) else "quant_method",
    "bitsandbytes": lambda kind, fields: "",
    "compressed-tensors": unread_groups,
    "fp8": unread_tile,
    "gptq": lambda kind, fields: unlike(fields, {"bits": (4, 8), "checkpoint_format": ("gptq", "gptq_v2", None)}),
    "modelopt": lambda kind, fields: unlike(fields, {"quant_algo": ("FP8", "NVFP4")}),
    "mxfp4": lambda kind, fields: "" if kind == "gpt_oss" else "quant_method",
}
"""By `quant_method`: a function that names the first field not supported, for a model of this type."""
FORESEEN = {
    "bitnet": (ternary.PRECISION, ternary.REASON),
    "bitsandbytes": (bitsandbytes.PRECISION, bitsandbytes.REASON),
    "int-quantized": (int8.PRECISION, int8.REASON),
    "mxfp4": (mxfp4.PRECISION, mxfp4.REASON),
    "nvfp4": (nvfp4.PRECISION, nvfp4.REASON),
    "nvfp4-pack-quantized": (nvfp4.PRECISION, nvfp4.REASON),
}
"""What suits matrices, and why."""


def foreseen(config: Fields) -> tuple[str, str]:
    """The precision that suits matrices, and why, before they are here; empty where it is the usual one."""
    fields: Fields = config.get("quantization_config") or {}
    kind = fields.get("quant_method", "")
    if kind == "compressed-tensors":
        group = next(iter(fields["config_groups"].values()))
        kind = group.get("format") or fields["format"]
        kind = NAIVE[group["weights"]["type"]] if kind == "naive-quantized" else kind
    elif kind == "modelopt":
        kind = fields["quant_algo"].lower()
    elif fields.get("load_in_8bit"):
        kind = "int-quantized"
    if kind in ("awq", "gptq", "pack-quantized"):
        return packed.foreseen(fields)[:2]
    return FORESEEN.get(kind, ("", ""))


def join(tensors: Mapping[str, Tensor], config: Fields) -> dict[str, Tensor]:
    """Join the tensors of each rounded matrix; no other integer tensors are left."""
    refuse_rounded(str(config.get("model_type")), config.get("quantization_config"))
    found = {name: tensor for name, tensor in tensors.items() if not BESIDE.fullmatch(name)}
    found = packed.join(fp8.join(ternary.join(nvfp4.join(bitsandbytes.join(found)), config), config), config)
    found = int8.join(mxfp4.join(found))
    for name, tensor in found.items():
        if tensor.dtype in fp8.DTYPES.values():
            raise UnsupportedCheckpoint(
                f"{tensor.path}: the tensor {name} is rounded to {tensor.dtype} and has no scale; use the publisher's"
                " checkpoint in bfloat16, float16 or float32"
            )
    return {name: tensor for name, tensor in found.items() if tensor.dtype.kind not in "iu"}
