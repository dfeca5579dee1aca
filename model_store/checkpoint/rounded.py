"""Rounded checkpoints: which `quantization_config` are supported, and how their tensors are joined."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from model_store.checkpoint import bitsandbytes, fp8, int8, mxfp4, nvfp4, packed, ternary
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

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
    fields = quantization if isinstance(quantization, dict) else {}
    method = fields.get("quant_method", "unknown") if fields else quantization
    if not quantization or (isinstance(method, str) and method in METHODS and METHODS[method](kind, fields)):
        return
    raise UnsupportedCheckpoint(
        "this checkpoint is rounded already, and not in a way that is read (quantization_config in config.json:"
        f" {str(method)[:40]}); take one that docs/formats.md lists, or the publisher's in bfloat16, float16 or"
        " float32, which is rounded here as you ask"
    )


def fits_fp8(kind: str, fields: Fields) -> bool:
    """Whether tiles, if there are any, have sizes."""
    tile = fields.get("weight_block_size")
    return tile is None or (isinstance(tile, list) and len(tile) == 2 and all(type(n) is int and n > 0 for n in tile))


def fits_gptq(kind: str, fields: Fields) -> bool:
    """Whether GPTQ's packing is the usual one."""
    return fields.get("bits") in (4, 8) and fields.get("checkpoint_format", "gptq") in ("gptq", "gptq_v2")


def fits_awq(kind: str, fields: Fields) -> bool:
    """Whether AWQ's packing is the usual one."""
    return fields.get("bits") == 4 and str(fields.get("version", "gemm")).lower() == "gemm"


def fits_groups(kind: str, fields: Fields) -> bool:
    """Whether everything that compressed-tensors says is supported."""
    groups = fields.get("config_groups")
    return (
        not any(value for name, value in fields.items() if name not in ANY)  # anything else done to a model
        and isinstance(groups, dict)
        and bool(groups)
        and all(isinstance(group, dict) and fits_group(group, fields.get("format")) for group in groups.values())
    )


def fits_group(group: Fields, usual: object) -> bool:
    """Whether a group of matrices is supported, in its own format or the `usual` one."""
    asked = {name: value for name, value in group.items() if name not in ("targets", "format")}
    weights, activations = asked.pop("weights", None), asked.pop("input_activations", None)
    named = group.get("format") or usual
    if named == "naive-quantized" and isinstance(weights, dict):
        named = NAIVE.get(str(weights.get("type")))
    return (
        isinstance(named, str)
        and named in SCHEMES
        and is_scheme(weights, {"dynamic": {False}, **SCHEMES[named]})
        and (activations is None or named in ROUNDS_ACTIVATIONS or is_scheme(activations, ACTIVATIONS))
        and not any(asked.values())
    )


def is_scheme(stated: object, wanted: Fields) -> bool:
    """Whether a scheme has a wanted value for each field, and no other fields; null counts as absent."""
    if not isinstance(stated, dict):
        return False
    said = {"dynamic": False} | {name: value for name, value in stated.items() if value is not None}
    return all(name in said or known is None for name, known in wanted.items()) and all(
        name in MAKING or (name in wanted and (wanted[name] is None or value in (*wanted[name],)))
        for name, value in said.items()
    )


METHODS: Mapping[str, Callable[[str, Fields], bool]] = {
    "awq": fits_awq,
    "bitnet": ternary.fits,
    "bitsandbytes": lambda kind, fields: True,
    "compressed-tensors": fits_groups,
    "fp8": fits_fp8,
    "gptq": fits_gptq,
    "modelopt": lambda kind, fields: fields.get("quant_algo") in ("FP8", "NVFP4"),
    "mxfp4": lambda kind, fields: kind == "gpt_oss",
}
"""Supported `quant_method`s."""


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
                f"{tensor.path}: the tensor {name} is rounded to {tensor.dtype} and has no scale; take the publisher's"
                " checkpoint in bfloat16, float16 or float32"
            )
    return {name: tensor for name, tensor in found.items() if tensor.dtype.kind not in "iu"}
