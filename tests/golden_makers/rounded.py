"""Make tests/golden_rounded.safetensors: small matrices as libraries round them, and what they read them as.

PYTHONPATH=tests:. python -m golden_makers.rounded, with transformers, compressed-tensors and bitsandbytes.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import bitsandbytes
import compressed_tensors.compressors  # noqa: F401 which registers them
import torch
from bitsandbytes import functional
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

from support.checkpoints import TESTS

Tensors = dict[str, torch.Tensor]
Made = tuple[dict[str, Any], Tensors, torch.Tensor]  # Any: a quantization_config
ROWS, COLUMNS, GROUP = 32, 128, 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def fp8(tile: tuple[int, int], scale_dtype: torch.dtype = torch.float32) -> Made:
    """fp8 in tiles, as transformers reads it."""
    weight, (rows, columns) = matrix(), tile
    tiles = weight.reshape(ROWS // rows, rows, COLUMNS // columns, columns)
    scales = torch.exp2(torch.ceil(torch.log2(tiles.abs().amax((1, 3)) / 448))).to(scale_dtype)
    numbers = (tiles / scales.float()[:, None, :, None]).reshape(ROWS, COLUMNS).to(torch.float8_e4m3fn)
    expected = Fp8Dequantize(None)._dequantize_one(numbers, scales, torch.float32)
    whole = tile == (ROWS, COLUMNS)
    config = {"quant_method": "fp8", "weight_block_size": None if whole else list(tile)}
    return config, {"weight": numbers, "weight_scale_inv": scales.reshape(()) if whole else scales}, expected


def compressed(name: str, strategy: str, bits: int, *, symmetric: bool = True, kind: str = "int") -> Made:
    """A format of compressed-tensors."""
    weight, group = matrix(), {"group": GROUP, "tensor_group": 16}.get(strategy)
    block = [16, 64] if strategy == "block" else None
    args = dict(num_bits=bits, type=kind, symmetric=symmetric, strategy=strategy, group_size=group)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args, block_structure=block))
    shape = {"channel": (ROWS, 1, 1, -1), "tensor": (1, ROWS, 1, -1), "block": (ROWS // 16, 16, COLUMNS // 64, 64)}
    parts = weight.reshape(shape.get(strategy, (ROWS, 1, -1, group or 1)))
    whole = 448 * 6 / weight.abs().max().reshape(1) if strategy == "tensor_group" else None
    least, most = parts.amin((1, 3)), parts.amax((1, 3))
    scales, zeros = calculate_qparams(least, most, scheme.weights, global_scale=whole)
    given = {"weight": weight, "weight_scale": scales, "weight_zero_point": zeros, "weight_global_scale": whole}
    compressor = BaseCompressor.get_value_from_registry(name)
    if symmetric:
        del given["weight_zero_point"]
    made = compressor.compress({part: tensor for part, tensor in given.items() if tensor is not None}, scheme)
    groups = {"group_0": scheme.model_dump(mode="json")}
    config = {"quant_method": "compressed-tensors", "format": name, "config_groups": groups}
    return config, made, compressor.decompress(dict(made), scheme)["weight"].float()


def words(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers of each row in words of 32 bits, the lowest first."""
    each = numbers.reshape(len(numbers), -1, 32 // bits).long() << torch.arange(0, 32, bits)
    return (each.sum(-1) + (1 << 31)) % (1 << 32) - (1 << 31)


def grouped(bits: int, groups: torch.Tensor, *, symmetric: bool = False) -> tuple[torch.Tensor, ...]:
    """Numbers, zero points and scales of a matrix whose columns are in these groups."""
    weight, top = matrix(), (1 << bits) - 1
    numbers, columns = torch.empty(ROWS, COLUMNS), []
    for group in range(COLUMNS // GROUP):
        part = weight[:, groups == group]
        least, most = part.amin(1, True), part.amax(1, True)
        least, most = (-part.abs().amax(1, True), part.abs().amax(1, True)) if symmetric else (least, most)
        scale = ((most - least) / top).half().float()
        zero = torch.full_like(scale, 1 << bits - 1) if symmetric else torch.round(-least / scale)
        numbers[:, groups == group] = torch.round(part / scale + zero).clamp(0, top)
        columns.append((zero, scale))
    zeros, scales = (torch.cat(each, 1) for each in zip(*columns, strict=True))
    return numbers, zeros, scales


def gptq(bits: int, *, symmetric: bool, shuffled: bool = False, lift: int = 1) -> Made:
    """GPTQ, as AutoGPTQ packs it (auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py)."""
    groups = torch.arange(COLUMNS) // GROUP
    groups = groups[torch.randperm(COLUMNS)] if shuffled else groups
    numbers, zeros, scales = grouped(bits, groups, symmetric=symmetric)
    made = {
        "qweight": words(numbers, bits).T.int(),
        "qzeros": words((zeros.T - lift) % (1 << bits), bits).int(),
        "scales": scales.T.half(),
        "g_idx": groups.int(),
    }
    form = "gptq" if lift else "gptq_v2"
    config = {"quant_method": "gptq", "bits": bits, "sym": symmetric, "desc_act": shuffled, "checkpoint_format": form}
    return config, made, (numbers - zeros[:, groups]) * scales[:, groups]


def awq() -> Made:
    """AWQ, as compressed-tensors reads it."""
    numbers, zeros, scales = grouped(4, torch.arange(COLUMNS) // GROUP)
    packed = [words(each.T.reshape(-1, 8)[:, AWQ_ORDER].reshape(len(each.T), -1), 4).int() for each in (numbers, zeros)]
    made = {"qweight": packed[0], "qzeros": packed[1], "scales": scales.T.half()}
    config = {"quant_method": "awq", "bits": 4, "version": "gemm", "zero_point": True}
    reader = AutoAWQConverter(group_size=GROUP, ignore=())
    read = reader._convert_gemm_module(made["qweight"], made["scales"], made["qzeros"])
    whole, read_scales, read_zeros = (each.float() for each in read)
    groups = torch.arange(COLUMNS) // GROUP
    return config, made, (whole - read_zeros[:, groups]) * read_scales[:, groups]


def four_bits(kind: str, nested: bool) -> Made:
    """bitsandbytes in four bits."""
    layer = bitsandbytes.nn.Linear4bit(COLUMNS, ROWS, bias=False)
    how = dict(requires_grad=False, quant_type=kind, compress_statistics=nested)
    layer.weight = bitsandbytes.nn.Params4bit(matrix(), **how)
    layer = layer.to("cpu")
    expected = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return {"quant_method": "bitsandbytes", "load_in_4bit": True}, dict(layer.state_dict()), expected


def eight_bits() -> Made:
    """bitsandbytes in eight bits."""
    numbers, largest, _ = functional.int8_vectorwise_quant(matrix().half())
    made = {"weight": numbers, "SCB": largest, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    expected = functional.int8_vectorwise_dequant(numbers, largest)
    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, made, expected


def matrix() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS)


CASES: dict[str, Callable[[], Made]] = {
    "fp8 tiles": lambda: fp8((16, 64)),
    "fp8 tiles, powers of two": lambda: fp8((16, 64), torch.float8_e8m0fnu),
    "fp8 whole": lambda: fp8((ROWS, COLUMNS)),
    "compressed fp8 rows": lambda: compressed("float-quantized", "channel", 8, kind="float"),
    "compressed fp8 whole": lambda: compressed("float-quantized", "tensor", 8, kind="float"),
    "compressed fp8 tiles": lambda: compressed("float-quantized", "block", 8, kind="float"),
    "compressed int8": lambda: compressed("int-quantized", "channel", 8),
    "compressed int4": lambda: compressed("pack-quantized", "group", 4),
    "compressed int4 asymmetric": lambda: compressed("pack-quantized", "group", 4, symmetric=False),
    "compressed int8 packed": lambda: compressed("pack-quantized", "channel", 8),
    "compressed nvfp4": lambda: compressed("nvfp4-pack-quantized", "tensor_group", 4, kind="float"),
    "gptq": lambda: gptq(4, symmetric=True),
    "gptq asymmetric": lambda: gptq(4, symmetric=False),
    "gptq shuffled": lambda: gptq(4, symmetric=False, shuffled=True),
    "gptq of 8 bits": lambda: gptq(8, symmetric=False, lift=0),
    "awq": awq,
    "nf4": lambda: four_bits("nf4", nested=True),
    "fp4": lambda: four_bits("fp4", nested=False),
    "bitsandbytes int8": eight_bits,
}  # fmt: skip


def main() -> int:
    found, configs = dict[str, torch.Tensor](), {}
    torch.manual_seed(0)
    for name, make in CASES.items():
        config, made, expected = make()
        configs[name] = json.dumps(config)
        found |= {f"{name}/{part}": tensor.contiguous() for part, tensor in {**made, "expected": expected}.items()}
    save_file(found, TESTS / "golden_rounded.safetensors", configs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
