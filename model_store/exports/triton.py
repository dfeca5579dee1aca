"""`triton`: the decoder of a model repository for Triton Inference Server, and all models' configurations.

The Python models, which need to generate text, are in `chatapp.deploy.triton`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backends import Progress
from model_store.exports import Source, option
from model_store.exports.decoders import refuse_experts, refuse_long_positions, refuse_missing, require_decoder

if TYPE_CHECKING:
    from backends.decoder import Decoder

SUMMARY = "a model repository for Triton Inference Server: an ensemble and a chat model"
GRAPH, ENCODER, DECODER, ENSEMBLE, CHAT = "language_model", "encoder", "decoder", "ensemble_model", "chat"
"""The models of the repository."""
RUNTIMES = {"onnx": "onnxruntime_onnx", "openvino": "openvino"}
"""Runtimes of the decoder, with Triton's names for them."""
PRECISIONS = ("f32", "int8", "int4")

Tensor = tuple[str, str, Sequence[int]]
"""A name, a type without TYPE_, and sizes, -1 for any."""


@dataclass(frozen=True)
class Options:
    """The options of the target."""

    decoder: str = option("onnx", "the server's backend: onnx or openvino", choices=tuple(RUNTIMES))
    precision: str = option("f32", "f32, int8 or int4 (default: f32)", choices=PRECISIONS, metavar="P")
    streams: int = option(8, "answers at once; others wait (default: 8)", metavar="N")


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what the target cannot have."""
    refuse_missing(options.decoder)
    require_decoder(source, "the target triton")
    refuse_experts(source, "the target triton")
    refuse_long_positions(source)


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write the decoder's graph to `language_model/1/`, and the config.pbtxt of every model."""
    decoder, weights = source.decoder, source.weights(options.precision, on_progress)
    version = folder / GRAPH / "1"
    version.mkdir(parents=True)
    if options.decoder == "onnx":
        from backends.onnx import stock

        stock.lower(decoder, weights, version, options.precision)
    else:
        from backends.openvino import export

        export.export_with_caches(decoder, weights, version, options.precision)
    for name, config in configurations(decoder, options).items():
        (folder / name / "1").mkdir(parents=True, exist_ok=True)
        (folder / name / "config.pbtxt").write_text(f'name: "{name}"\nmax_batch_size: 0\n{config}', "utf-8")


def configurations(decoder: "Decoder", options: Options) -> dict[str, str]:
    """The config.pbtxt of each model."""
    tokens, vocabulary = decoder_tensors(decoder)
    logits: Tensor = ("logits", "FP32", (1, -1, decoder.vocab_size))
    runtime = RUNTIMES[options.decoder]
    how = f'platform: "{runtime}"\n' if options.decoder == "onnx" else f'backend: "{runtime}"\n'
    fed = {name: name for name, *_ in tokens}
    steps = [
        step(ENCODER, {"TEXT": "TEXT"}, fed),
        step(GRAPH, fed, {"logits": "logits"}),
        step(DECODER, {"input_ids": "input_ids", "logits": "logits"}, {"OUTPUT": "OUTPUT"}),
    ]
    text: list[Tensor] = [("TEXT", "STRING", (1,))]
    output: list[Tensor] = [("OUTPUT", "STRING", (1,))]
    ids: Tensor = ("input_ids", "INT64", (1, -1))
    return {
        GRAPH: how + tensors("input", tokens) + tensors("output", vocabulary) + INSTANCE,
        ENCODER: PYTHON + tensors("input", text) + tensors("output", tokens) + INSTANCE,
        DECODER: PYTHON + tensors("input", [ids, logits]) + tensors("output", output) + INSTANCE,
        ENSEMBLE: 'platform: "ensemble"\n'
        + tensors("input", text)
        + tensors("output", output)
        + f"ensemble_scheduling {{\n  step [\n{','.join(steps)}\n  ]\n}}\n",
        CHAT: PYTHON
        + "model_transaction_policy { decoupled: true }\n"
        + tensors("input", ASKED, optional=True)
        + tensors("output", ANSWERED)
        + INSTANCE
        + f'parameters {{ key: "streams" value: {{ string_value: "{options.streams}" }} }}\n',
    }


PYTHON = 'backend: "python"\n'
INSTANCE = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
ASKED: list[Tensor] = [
    ("text_input", "STRING", (1,)),
    ("messages", "STRING", (1,)),
    ("stream", "BOOL", (1,)),
    ("max_tokens", "INT32", (1,)),
    ("temperature", "FP32", (1,)),
    ("top_k", "INT32", (1,)),
    ("top_p", "FP32", (1,)),
    ("seed", "INT64", (1,)),
    ("stop", "STRING", (-1,)),
    ("options", "STRING", (1,)),
]
"""The inputs of `chat`: a text, or messages as JSON, and options; those without a name here are JSON."""
ANSWERED: list[Tensor] = [
    ("text_output", "STRING", (1,)),
    ("thinking", "STRING", (1,)),
    ("finish_reason", "STRING", (1,)),
    ("usage", "STRING", (1,)),
]
"""The outputs of `chat`: text, thinking, finish reason, and figures as JSON."""


def decoder_tensors(decoder: "Decoder") -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and the outputs of the decoder's graph."""
    inputs: list[Tensor] = [(name, "INT64", (-1, -1)) for name in ("input_ids", "attention_mask", "position_ids")]
    inputs.append(("last", "INT64", (1,)))
    outputs: list[Tensor] = [("logits", "FP32", (-1, -1, decoder.vocab_size))]
    for i, a in decoder.cached_layers:
        for kind in ("key", "value"):
            sizes = (-1, a.kv_heads, -1, a.head_dim)
            inputs.append((f"past_key_values.{i}.{kind}", "FP32", sizes))
            outputs.append((f"present.{i}.{kind}", "FP32", sizes))
    return inputs, outputs


def tensors(field: str, every: Iterable[Tensor], *, optional: bool = False) -> str:
    """Inputs or outputs as text."""
    more = " optional: true" if optional else ""
    lines = [
        f'  {{ name: "{name}" data_type: TYPE_{kind} dims: [ {", ".join(map(str, sizes))} ]{more} }}'
        for name, kind, sizes in every
    ]
    return f"{field} [\n" + ",\n".join(lines) + "\n]\n"


def step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """A step of an ensemble as text: the model's names of tensors, and the ensemble's."""
    maps = [
        f'      {field} {{ key: "{key}" value: "{value}" }}'
        for field, pairs in (("input_map", inputs), ("output_map", outputs))
        for key, value in pairs.items()
    ]
    return f'    {{\n      model_name: "{model}"\n      model_version: -1\n' + "\n".join(maps) + "\n    }"
