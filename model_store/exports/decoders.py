"""What several targets share: refusals, a publisher's files, and comparing logits."""

import shutil
from typing import TYPE_CHECKING

import backends
from model_store.exports import ExportError, Finding, Source
from model_store.files import write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backends import Session
    from backends.decoder import Decoder

PUBLISHED = (
    "config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "tokenizer.model", "added_tokens.json",
)  # fmt: skip
"""Files beside the weights that other programs read."""
TOKENS = 24
"""Tokens of the text for comparing an export: half of them read at once, the others one by one."""
ALLOWED = {"f32": 1e-3, "f16": 2e-2}
"""The largest error of logits, relative to the largest one; rounded weights have their own bound."""
ROUNDED = 0.1
"""The bound for rounded weights: both sides use the same weights, but activations are rounded too."""


def require_decoder(source: Source, target: str) -> None:
    """Raise for what a target for attention-only decoders cannot have, and for other programs' exports."""
    if source.model.export:
        raise ExportError(
            f"{source.model.name} is already an export for {source.model.export}; "
            "export the checkpoint that it was made of"
        )
    if source.decoder.encoder:
        raise ExportError(
            f"{source.model.name} is an encoder-decoder ({source.model.family}): {target} has decoders only; "
            "it runs here, with chatapp run"
        )
    if source.decoder.recurrent:
        raise ExportError(
            f"{source.model.name} has layers that keep a state ({source.model.family}), which {target} cannot have; "
            "it runs here, with chatapp run"
        )


def refuse_experts(source: Source, target: str) -> None:
    """Raise for a mixture of experts, which not all programs that read the target can compute."""
    if source.decoder.experts:
        raise ExportError(
            f"{source.model.name} is a mixture of experts ({source.model.family}), and what reads {target} is not known"
            " to compute any; it runs here, with chatapp run, and can be exported with chatapp export onnx, openvino,"
            " or gguf"
        )


def refuse_long_positions(source: Source) -> None:
    """Raise for LongRoPE, if a target is one graph."""
    if source.decoder.border:
        raise ExportError(
            f"{source.model.name} treats positions of long texts differently (longrope), which one graph cannot do; "
            "it runs here, with chatapp run"
        )


def choose_precision(source: Source, asked: str, known: "Sequence[str]") -> str:
    """The wanted precision, or the model's own; ExportError if the target does not know it."""
    precision = asked or source.model.precision
    if precision not in known:
        raise ExportError(
            f"{source.model.name} is {precision}, which this target does not support; choose from {', '.join(known)}"
        )
    return precision


def refuse_missing(runtime: str) -> None:
    """Raise for a target whose graphs need a runtime that is not installed."""
    if why := backends.get(runtime).missing():
        raise ExportError(why)


def copy_published(source: Source, folder: "Path") -> None:
    """Copy a publisher's files beside the weights, and a tokenizer.json in any case."""
    for name in PUBLISHED:
        if (source.folder / name).is_file():
            shutil.copyfile(source.folder / name, folder / name)
    if "quantization_config" in source.config and (folder / "config.json").is_file():  # for weights that are not copied
        fields = {name: value for name, value in source.config.items() if name != "quantization_config"}
        write_json(folder / "config.json", fields)
    shutil.copyfile(source.tokenizer, folder / "tokenizer.json")


def compare_logits(source: Source, session: "Session", precision: str) -> Finding:
    """Compare an export's logits with the NumPy decoder's for the same weights: a part at once, then by token."""
    import numpy as np

    from backends import quantize, reference

    decoder = source.decoder
    weights = quantize.Rounded(source.weights(precision), quantize.precision(precision))
    count = min(TOKENS, decoder.context_length)
    tokens = np.random.default_rng(0).integers(0, decoder.vocab_size, (1, count))
    expected = reference.Session(decoder, weights).forward(tokens, last=count)[0]
    half = count // 2
    parts = [session.forward(tokens[:, :half], last=half)[0].copy()]
    parts += [session.forward(tokens[:, i : i + 1])[0].copy() for i in range(half, count)]
    errors = np.abs(np.concatenate(parts) - expected).max(-1) / np.abs(expected).max()  # per token
    share = share_alike(decoder, precision)
    error, allowed = float(np.quantile(errors, share)), ALLOWED.get(precision, ROUNDED)
    where = "at most" if share == 1 else f"in {share:.0%} of the tokens"
    figure = f"off by {error:.1e} of the largest {where} ({allowed:.0e} allowed)"
    return Finding(f"logits of {count} tokens", bool(error <= allowed), figure)


def share_alike(decoder: "Decoder", precision: str) -> float:
    """The share of tokens whose logits must agree.

    Many models give a text's first token channels hundreds of times larger than others, beside which its other
    activations are rounded coarsely. Where two experts are equally good, rounding decides between them; with
    sparsemixer the share of either is near 1, and affects what the next tokens see.
    """
    if precision in ALLOWED:
        return 1.0
    if not decoder.experts:
        return 0.9
    return 0.2 if decoder.experts.scores == "sparsemixer" else 0.5
