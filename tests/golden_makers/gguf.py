"""Make the files of tests/golden_gguf with llama.cpp and its gguf package.

PYTHONPATH=tests python -m golden_makers.gguf, with `pip install gguf llama-cpp-python`.
"""

import sys
from pathlib import Path
from typing import Any

import gguf as reference
import llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.gguf_files import floats, gguf, vocabulary

GOLDEN = Path(__file__).parents[1] / "golden_gguf"
KEYS: dict[str, object] = {"context_length": 64, "attention.layer_norm_rms_epsilon": 1e-3, "rope.freq_base": 500.0}
SMALL: dict[str, object] = {
    "embedding_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "feed_forward_length": 96,
}
LARGE: dict[str, object] = {
    "embedding_length": 256,
    "attention.head_count": 4,
    "attention.head_count_kv": 1,
    "feed_forward_length": 256,
}
CASES: dict[str, tuple[dict[str, object], str]] = {
    "qwen2-q8_0": ({**SMALL, "block_count": 2}, "Q8_0"),
    "llama-q4_0": ({**SMALL, "block_count": 2}, "Q4_0"),
    "llama-q4_k_m": ({**LARGE, "block_count": 1}, "Q4_K_M"),
    "gemma3-q5_1": (
        {**SMALL, "block_count": 6, "attention.sliding_window": 6, "feed_forward_length": 32}
        | {"attention.key_length": 32, "attention.value_length": 32},
        "Q5_1",
    ),
    "smollm3-f32": (
        {**SMALL, "embedding_length": 32, "attention.head_count": 2, "attention.head_count_kv": 1}
        | {"block_count": 5, "feed_forward_length": 48},
        "ALL_F32",
    ),
}
"""Keys, and what the matrices are rounded to."""
BLOCKS = 4
ROUNDED = (
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS",
    "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4",
)  # fmt: skip


def random_tensors(architecture: str, keys: dict[str, object]) -> dict[str, np.ndarray]:
    """Random weights of the shapes that the keys ask for, the head tied to the embedding."""
    random = np.random.default_rng(0)
    size, heads, kv_heads, inner = (
        int(str(keys[key]))
        for key in ("embedding_length", "attention.head_count", "attention.head_count_kv", "feed_forward_length")
    )
    head = int(str(keys.get("attention.key_length", size // heads)))
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (96, size), "output_norm.weight": (size,)}
    for layer in range(int(str(keys["block_count"]))):
        each: dict[str, tuple[int, ...]] = {
            "attn_norm": (size,), "ffn_norm": (size,), "attn_q": (heads * head, size),
            "attn_k": (kv_heads * head, size),
            "attn_v": (kv_heads * head, size), "attn_output": (size, heads * head), "ffn_gate": (inner, size),
            "ffn_up": (inner, size), "ffn_down": (size, inner),
        }  # fmt: skip
        if architecture == "gemma3":
            each |= {"attn_q_norm": (head,), "attn_k_norm": (head,)}
            each |= {"post_attention_norm": (size,), "post_ffw_norm": (size,)}
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in each.items()}
        if architecture == "qwen2":
            biases = {"attn_q": heads * head, "attn_k": kv_heads * head, "attn_v": kv_heads * head}
            shapes |= {f"blk.{layer}.{name}.bias": (count,) for name, count in biases.items()}
    return {
        name: random.normal(float(name.endswith("norm.weight")), 0.1 if len(shape) == 1 else 0.12, shape)
        for name, shape in shapes.items()
    }


def make(case: str) -> None:
    """Write the file, and the logits that llama.cpp gives for its weights."""
    architecture = case.partition("-")[0]
    given, rounding = CASES[case]
    keys = {f"{architecture}.{key}": found for key, found in {**KEYS, **given}.items()}
    if architecture == "gemma3":
        keys["gemma3.rope.freq_base_swa"] = 100.0
    metadata = {"general.architecture": architecture, "general.name": case, **keys, **vocabulary(96)}
    plain, path = Path("/tmp") / f"{case}.gguf", GOLDEN / f"{case}.gguf"
    plain.write_bytes(gguf(metadata, floats(random_tensors(architecture, given))))
    if rounding == "ALL_F32":
        path.write_bytes(plain.read_bytes())
    else:
        how = llama_cpp.llama_model_quantize_default_params()
        how.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{rounding}")
        llama_cpp.llama_model_quantize(str(plain).encode(), str(path).encode(), how)
    # llama.cpp rounds activations too where weights are rounded: so the same weights as float32.
    found = {
        one.name: reference.quants.dequantize(one.data, one.tensor_type).reshape(one.shape[::-1])
        for one in reference.GGUFReader(path).tensors
    }
    plain.write_bytes(gguf(metadata, floats(found)))
    model = llama_cpp.Llama(str(plain), n_ctx=64, logits_all=True, verbose=False, flash_attn=False, type_k=0, type_v=0)
    tokens = np.random.default_rng(0).integers(0, 96, 24)
    model.eval(tokens.tolist())
    np.savez_compressed(GOLDEN / f"{case}.npz", tokens=tokens[None], logits=np.array(model.scores[:24])[None])


def make_blocks() -> None:
    """Write random blocks of every type, and their numbers."""
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {}  # Any: numpy takes arrays and a flag as keywords
    for number, (_, size) in reference.GGML_QUANT_SIZES.items():
        name = number.name
        if name in ROUNDED:
            while True:  # until every scale is a number
                raw = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
                with np.errstate(invalid="ignore"):
                    values = reference.quants.dequantize(raw, number)
                if np.isfinite(values).all():
                    break
            arrays |= {f"{name}.raw": raw, f"{name}.values": values}
    np.savez_compressed(GOLDEN / "blocks.npz", **arrays)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    make_blocks()
    for wanted in CASES:
        make(wanted)
