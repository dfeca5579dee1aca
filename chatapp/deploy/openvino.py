"""Target `openvino`: a folder for openvino-genai."""

from pathlib import Path

from model_store.exports import Finding, Source, openvino
from model_store.exports.openvino import NEEDS, SUMMARY, Options, refuse, write

__all__ = ["SUMMARY", "Options", "check", "refuse", "write"]
LEFT_OUT = f"openvino or openvino-tokenizers is not installed; run: {NEEDS}"


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Compare the graph's logits and, if openvino-genai is installed, the text it generates."""
    from chatapp.deploy import openvino_genai

    found = openvino.check(source, folder, options)
    if not (openvino_genai.is_installed() and (folder / "openvino_tokenizer.xml").exists()):
        return [*found, Finding("openvino-genai", None, LEFT_OUT)]
    return [*found, *openvino_genai.ask(source, folder, openvino.precision_of(source, options))]
