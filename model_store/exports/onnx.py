"""`onnx`: a model as onnxruntime-genai's model builder exports it, for that and for any program that runs ONNX."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends import Progress
from model_store.exports import ExportError, Finding, Source, decoders, option
from model_store.files import optional_json, read_json, write_json
from model_store.tokenizers.special_tokens import special_tokens
from model_store.tokenizers.tokenizer import ids_of

SUMMARY = "a folder for onnxruntime-genai, with the graph for ONNX Runtime"
PRECISIONS = ("f32", "int8", "int4")
TYPES = (
    "ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "nemotron", "phi", "phi3", "qwen2",
    "qwen3", "smollm3",
)  # fmt: skip
"""Families that onnxruntime-genai knows; others run as `decoder`."""
PAST, PRESENT = "past_key_values.%d.{}", "present.%d.{}"


@dataclass(frozen=True)
class Options:
    """The options of the target."""

    precision: str = option("", "f32, int8 or int4 (default: the model's own)", choices=PRECISIONS, metavar="P")


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what such graphs cannot have."""
    decoders.require_decoder(source, "the target onnx")
    decoders.choose_precision(source, options.precision, PRECISIONS)
    decoders.refuse_long_positions(source)
    if len({(layer.kv_heads, layer.head_dim, layer.kv_layer) for layer in source.decoder.layers}) > 1:
        says = "layers with other heads than the first, or without keys of their own"
        raise ExportError(f"{source.model.name} has {says}, which genai_config.json cannot express")


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write the graph, genai_config.json, and the publisher's files beside the weights."""
    from backends.onnx import genai

    precision = decoders.choose_precision(source, options.precision, PRECISIONS)
    genai.lower(source.decoder, source.weights(precision, on_progress), folder, precision)
    decoders.copy_published(source, folder)
    write_json(folder / "genai_config.json", configuration(source))


def configuration(source: Source) -> dict[str, Any]:  # Any: JSON
    """The contents of genai_config.json."""
    from backends.onnx.lowering import width

    decoder = source.decoder
    first, ends = decoder.layers[0], end_tokens(source)
    special = {"bos_token_id": 0, "pad_token_id": next(iter(ends), 0)}
    special |= {name: source.config[name] for name in special if is_token(source, source.config.get(name))}
    known = {"input_ids": "input_ids", "attention_mask": "attention_mask", "position_ids": "position_ids"}
    graph = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "filename": "model.onnx",
        "head_size": width(first),
        "hidden_size": decoder.hidden_size,
        "inputs": known | {f"past_{kind}_names": PAST.format(kind) for kind in ("key", "value")},
        "outputs": {"logits": "logits"} | {f"present_{kind}_names": PRESENT.format(kind) for kind in ("key", "value")},
        "num_attention_heads": first.heads,
        "num_hidden_layers": len(decoder.layers),
        "num_key_value_heads": first.kv_heads,
    }
    model = {
        "type": source.model.family if source.model.family in TYPES else "decoder",
        "vocab_size": decoder.vocab_size,
        "context_length": decoder.context_length,
        "eos_token_id": ends,
        **special,
        "decoder": graph,
    }
    search = {"max_length": decoder.context_length, "past_present_share_buffer": True, "do_sample": False}
    return {"model": model, "search": search}


def end_tokens(source: Source) -> list[int]:
    """The tokens that end a reply, the tokenizer's first."""
    content, role = read_json(source.tokenizer), special_tokens(source.folder).get("eos_token", "")
    ids = ids_of(content["model"]) | {one["content"]: one["id"] for one in content.get("added_tokens") or ()}
    found: list[Any] = [ids.get(role)]
    for settings in optional_json(source.folder / "generation_config.json"), source.config:
        declared = settings.get("eos_token_id")
        found += declared if isinstance(declared, list) else [declared]
    return list(dict.fromkeys(one for one in found if is_token(source, one)))


def is_token(source: Source, number: object) -> bool:
    """Whether a number in the publisher's files is a token of the model."""
    return isinstance(number, int) and 0 <= number < source.decoder.vocab_size


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Run the graph with ONNX Runtime, and compare its logits with the NumPy decoder's."""
    from backends.onnx.prebuilt import PrebuiltSession
    from backends.prebuilt import Prebuilt

    graph = Prebuilt(str(folder / "model.onnx"), source.decoder.context_length)
    precision = decoders.choose_precision(source, options.precision, PRECISIONS)
    return [decoders.compare_logits(source, PrebuiltSession(graph), precision)]
