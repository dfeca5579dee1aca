"""`gguf`: a model as one file for llama.cpp and programs based on it.

Names, order and keys are those with which `model_store/gguf` reads such files: what an architecture of llama.cpp cannot
express is found by reading the keys again, before anything is written.
"""

from dataclasses import dataclass
from pathlib import Path

from backends import Progress
from model_store.errors import UnsupportedCheckpoint
from model_store.exports import ExportError, Finding, Source, option
from model_store.exports.decoders import compare_logits, require_decoder

SUMMARY = "one file for llama.cpp and programs based on it"
PRECISIONS = {"f32": 0, "f16": 1, "q8_0": 7}
"""Precisions of matrices, with their numbers for the key general.file_type."""
EXACT = "position_embedding", "router"
"""Matrices that are never rounded."""


@dataclass(frozen=True)
class Options:
    """The options of the target."""

    precision: str = option("f16", "f32, f16 or q8_0 (default: f16)", choices=tuple(PRECISIONS), metavar="P")
    context: int = option(0, "tokens of the context (default: the model's own)", metavar="N")


def refuse(source: Source, options: Options) -> None:
    """Raise ExportError for what llama.cpp's architectures cannot have."""
    if options.precision not in PRECISIONS:
        raise ExportError(f"the target gguf lacks {options.precision!r}; choose from {', '.join(PRECISIONS)}")
    from model_store.exports import gguf_decoder

    require_decoder(source, "the target gguf")
    if options.context < 0 or options.context > source.decoder.context_length:
        raise ExportError(
            f"{source.model.name} has a context of {source.decoder.context_length} tokens; --context asks for "
            f"{options.context}"
        )
    source = gguf_decoder.shortened(source, options.context)
    try:
        gguf_decoder.compare(source)
        gguf_decoder.refuse_biases(source)
        gguf_decoder.tokenizer_keys(source)
    except (ValueError, UnsupportedCheckpoint) as error:
        raise ExportError(
            f"{source.model.name} cannot be a GGUF file: {error}; try chatapp export onnx or openvino"
        ) from error


def write(source: Source, folder: Path, options: Options, on_progress: Progress | None = None) -> None:
    """Write NAME-PRECISION.gguf."""
    from model_store.exports import gguf_decoder
    from model_store.gguf.writer import Writer

    source = gguf_decoder.shortened(source, options.context)
    keys = gguf_decoder.decoder_keys(source)
    factors = gguf_decoder.rescaled(source, keys)
    weights = source.weights(on_progress=on_progress)
    with Writer(path_of(source, folder, options)) as writer:
        try:
            for canonical, names in gguf_decoder.names_of(source):
                if ".experts." in canonical:
                    for name, matrices in gguf_decoder.stacks_of(source.decoder, weights, canonical, names):
                        rounded = name.endswith(".weight")
                        writer.stack(name, matrices, options.precision.upper() if rounded else "F32")
                    continue
                weight = weights[canonical]
                if canonical == "lm_head" and weight.name == "embedding":
                    continue
                factor = factors.get(canonical, 1.0)
                for name, values in gguf_decoder.tensors_of(source.decoder, weight, canonical, names, factor):
                    rounded = values.ndim == 2 and not canonical.endswith(EXACT)
                    writer.add(name, values, options.precision.upper() if rounded else "F32")
        except ValueError as error:
            raise ExportError(f"{source.model.name} needs --precision f32: {error}") from error
        for name, values in gguf_decoder.stretches(source).items():
            writer.add(name, values, "F32")
        facts = gguf_decoder.facts(source, PRECISIONS[options.precision])
        writer.finish({**facts, **keys, **gguf_decoder.tokenizer_keys(source)})


def path_of(source: Source, folder: Path, options: Options) -> Path:
    """The path of the file."""
    return folder / f"{source.model.name}-{options.precision}.gguf"


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Read the file again, and compare its logits with the model's."""
    from backends.reference import Session
    from model_store.checkpoint.weights import Canonical
    from model_store.exports import gguf_decoder
    from model_store.gguf import open_gguf

    checkpoint, family, decoder = open_gguf(path_of(source, folder, options))
    session = Session(decoder, Canonical(checkpoint, family, decoder))
    precision = {"q8_0": "int8-32"}.get(options.precision, options.precision)
    return [compare_logits(gguf_decoder.shortened(source, options.context), session, precision)]
