"""`openvino`: a model as optimum-intel exports it, for OpenVINO GenAI and programs that read such folders."""

from dataclasses import dataclass
from pathlib import Path

from backends import Progress
from backends.versions import pip_install
from model_store.exports import Finding, Source, decoders, option
from model_store.tokenizers.special_tokens import special_tokens, tokenizer_class

SUMMARY = "a folder for openvino-genai and programs that read optimum-intel's exports"
NEEDS = pip_install("openvino-genai openvino-tokenizers transformers")
PRECISIONS = ("f32", "f16", "int8", "int4")


@dataclass(frozen=True)
class Options:
    """The options of the target."""

    precision: str = option("", "f32, f16, int8 or int4 (default: the model's own)", choices=PRECISIONS, metavar="P")


def precision_of(source: Source, options: Options) -> str:
    """The wanted precision, or the model's own; ExportError if the target lacks it."""
    return decoders.choose_precision(source, options.precision, PRECISIONS)


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what such graphs cannot have."""
    decoders.refuse_missing("openvino")
    decoders.require_decoder(source, "the target openvino")
    precision_of(source, options)
    decoders.refuse_long_positions(source)


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write openvino_model.xml and .bin, the publisher's files beside the weights, and the tokenizer's graphs.

    The latter need openvino-tokenizers, and are left out without it, or if it would split words differently.
    """
    from backends.openvino import export, tokenizers

    precision = precision_of(source, options)
    export.export(source.decoder, source.weights(precision, on_progress), folder, precision)
    decoders.copy_published(source, folder)
    if not tokenizers.missing() and not divides_by_moses(source):
        tokenizers.write(source.tokenizer, special_tokens(source.folder), folder)


def divides_by_moses(source: Source) -> bool:
    """Whether the model uses Moses' rules for words, which no tokenizer.json and no graph has."""
    return tokenizer_class(source.folder) == "BioGptTokenizer"


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Compare the graph's logits with the NumPy decoder's."""
    from backends.openvino.prebuilt import PrebuiltSession
    from backends.prebuilt import Prebuilt

    graph = Prebuilt(str(folder / "openvino_model.xml"), source.decoder.context_length)
    return [decoders.compare_logits(source, PrebuiltSession(graph, "CPU"), precision_of(source, options))]
