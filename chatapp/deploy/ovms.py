"""Target `ovms`: a folder for OpenVINO Model Server."""

from pathlib import Path

from model_store.exports import ExportError, Finding, Source, openvino
from model_store.exports.ovms import SUMMARY, Options, refuse, write

__all__ = ["SUMMARY", "Options", "check", "refuse", "write"]


def check(source: Source, folder: Path, options: Options) -> list[Finding]:
    """Compare the graph's logits and the text of openvino-genai, which must be installed, with ours."""
    from chatapp.deploy import openvino_genai

    if not openvino_genai.is_installed():
        raise ExportError(f"--check needs openvino-genai for this target; run: {openvino.NEEDS}")
    inside = folder / source.model.name
    precision = openvino.precision_of(source, options)
    return [*openvino.check(source, inside, options), *openvino_genai.ask(source, inside, precision)]
