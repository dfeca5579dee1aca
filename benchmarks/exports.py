"""Write the checkpoints in each peer's own format: one file or folder per model, peer and precision."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from backends import telemetry

Export = Callable[[Path, str, Path], None]
"""(checkpoint, precision, target)"""


def read_tensors(checkpoint: Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint: float32 as it lies in the file, bfloat16 widened."""
    data = np.memmap(checkpoint / "model.safetensors", np.uint8, "r")
    start = 8 + int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:start]))
    header.pop("__metadata__", None)
    return {name: read_tensor(data[start:], entry) for name, entry in header.items()}


def read_tensor(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:  # Any: JSON
    begin, end = entry["data_offsets"]
    raw = data[begin:end]
    if entry["dtype"] == "F32":
        return raw.view(np.float32).reshape(entry["shape"])
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])


GPT2_NAMES = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
LLAMA_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf(checkpoint: Path, precision: str, target: Path) -> None:
    """llama.cpp's format: f16, then rounded by llama.cpp itself (`q4_0p` rounds embedding and head to Q4_0 too)."""
    full = target.with_name(target.name.replace(precision, "f16"))
    if not full.exists():
        write_gguf(checkpoint, full)
    if precision != "f16":
        code = f"import exports; exports.round_gguf({str(full)!r}, {str(target)!r}, {precision!r})"
        subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True)


def write_gguf(checkpoint: Path, target: Path) -> None:
    """Every matrix as float16, in llama.cpp's names and orders."""
    from gguf import GGUFWriter

    config = json.loads((checkpoint / "config.json").read_text())
    gpt2 = config["model_type"] == "gpt2"
    names = GPT2_NAMES if gpt2 else LLAMA_NAMES
    writer = GGUFWriter(target, config["model_type"])
    describe_gguf(writer, config)
    add_vocabulary(writer, json.loads((checkpoint / "tokenizer.json").read_text()))
    for name, values in read_tensors(checkpoint).items():
        stem, kind = name.rsplit(".", 1)
        layer = next((int(part) for part in stem.split(".") if part.isdigit()), None)
        role = stem if layer is None else stem.split(f".{layer}.")[1]
        if gpt2 and values.ndim == 2 and layer is not None:
            values = values.T
        if not gpt2 and role.endswith(("q_proj", "k_proj")):
            values = interleave_rotary(values, config["head_dim"])
        place = "" if layer is None else f"blk.{layer}."
        values = np.ascontiguousarray(values, np.float16 if values.ndim == 2 else np.float32)
        writer.add_tensor(f"{place}{names[role]}.{kind}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleave_rotary(values: np.ndarray, head_dim: int) -> np.ndarray:
    """llama.cpp's llama rotates neighbours, the checkpoint's rotates the halves of a head."""
    heads = values.reshape(-1, 2, head_dim // 2, values.shape[1])
    return heads.swapaxes(1, 2).reshape(values.shape)


def describe_gguf(writer: Any, config: dict[str, Any]) -> None:  # Any: an untyped package, JSON
    gpt2 = config["model_type"] == "gpt2"
    writer.add_file_type(1)  # mostly f16
    writer.add_context_length(config["n_positions" if gpt2 else "max_position_embeddings"])
    writer.add_embedding_length(config["n_embd" if gpt2 else "hidden_size"])
    writer.add_block_count(config["n_layer" if gpt2 else "num_hidden_layers"])
    writer.add_feed_forward_length(config["n_inner" if gpt2 else "intermediate_size"])
    writer.add_head_count(config["n_head" if gpt2 else "num_attention_heads"])
    if gpt2:
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_rope_freq_base(config["rope_theta"])
        writer.add_rope_dimension_count(config["head_dim"])
        writer.add_vocab_size(config["vocab_size"])


def add_vocabulary(writer: Any, tokenizer: dict[str, Any]) -> None:  # Any: an untyped package, JSON
    vocab = tokenizer["model"]["vocab"]
    end = len(vocab) - 1
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(vocab, key=vocab.__getitem__))
    writer.add_token_types([1] * end + [3])  # normal, control
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)


def round_gguf(source: str, target: str, precision: str) -> None:
    """Let llama.cpp quantise a float16 file."""
    import llama_cpp

    silence = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silence, None)
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = 2
    options.ftype = {"q4_0": 2, "q4_0p": 2, "q8_0": 7}[precision]
    options.pure = precision == "q4_0p"
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), options):
        raise RuntimeError(f"llama.cpp could not quantise {source} to {precision}")


def onnxruntime_genai(checkpoint: Path, precision: str, target: Path) -> None:
    """onnxruntime-genai's model builder."""
    name = {"f32": "fp32"}.get(precision, precision)
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-m", checkpoint.name, "-i", str(checkpoint)]
    command += ["-o", str(target), "-p", name, "-e", "cpu", "-c", str(target.parent / "cache")]
    subprocess.run(command, check=True)


def ctranslate2(checkpoint: Path, precision: str, target: Path) -> None:
    """CTranslate2's converter for transformers' checkpoints."""
    from ctranslate2.converters import TransformersConverter

    name = {"f32": "float32"}.get(precision, precision)
    TransformersConverter(str(checkpoint)).convert(str(target), quantization=name)
    path = target / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"unk_token": config.get("unk_token") or config["eos_token"]}))


def openvino(checkpoint: Path, precision: str, target: Path) -> None:
    """Optimum Intel's exporter, which openvino-genai's own guide uses."""
    name = {"f32": "fp32"}.get(precision, precision)
    command = ["optimum-cli", "export", "openvino", "--model", str(checkpoint), "--task", "text-generation-with-past"]
    silent = {**os.environ, "CI": "true"}  # the only word with which OpenVINO's converter reports nothing
    subprocess.run([*command, "--weight-format", name, str(target)], check=True, env=silent)


EXPORTS: dict[str, tuple[Export, str, tuple[str, ...]]] = {
    "llama.cpp": (gguf, "{model}-{precision}.gguf", ("q4_0", "q4_0p", "q8_0")),
    "onnxruntime-genai": (onnxruntime_genai, "{model}-genai-{precision}", ("int4",)),
    "ctranslate2": (ctranslate2, "{model}-ctranslate2-{precision}", ("int8",)),
    "openvino-genai": (openvino, "{model}-openvino-{precision}", ("int4", "int8")),
}
"""For each peer: how to export, the name it gets, and the precisions timed by default."""


def path(folder: Path, peer: str, model: str, precision: str) -> Path:
    """Where the export of a model lies."""
    return folder / "exports" / EXPORTS[peer][1].format(model=model, precision=precision)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder given to checkpoints.py; exports go to its exports/")
    parser.add_argument("--models", nargs="+", help="all the checkpoints in the folder by default")
    parser.add_argument("--peers", nargs="+", choices=EXPORTS, default=list(EXPORTS))
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    telemetry.silence()
    models = arguments.models or sorted(config.parent.name for config in arguments.folder.glob("*/config.json"))
    (arguments.folder / "exports").mkdir(exist_ok=True)
    for peer in arguments.peers:
        export, _, precisions = EXPORTS[peer]
        for model, precision in ((model, precision) for model in models for precision in precisions):
            target = path(arguments.folder, peer, model, precision)
            if target.exists():
                continue
            try:
                export(arguments.folder / model, precision, target)
                print(peer, model, precision, "written")
            except Exception as error:  # a foreign exporter: say what failed and go on
                shutil.rmtree(target, ignore_errors=True)
                print(peer, model, precision, f"failed: {error!r:.300}", file=sys.stderr)


if __name__ == "__main__":
    main()
