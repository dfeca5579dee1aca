"""Convert a tokenizer.json to two graphs, one that encodes and one that decodes, with openvino-tokenizers."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from backends.errors import foreign

NEEDED = {"openvino_tokenizers": "openvino-tokenizers", "transformers": "transformers"}


def missing() -> list[str]:
    """The packages needed for this that are not installed."""
    return [package for module, package in NEEDED.items() if not find_spec(module)]


def write(path: Path, special: Mapping[str, str], folder: Path) -> None:
    """Write openvino_tokenizer and openvino_detokenizer (.xml, .bin) of the tokenizer.json at `path` to `folder`.

    `special` has tokens by their role, such as eos_token.
    """
    import openvino
    import openvino_tokenizers
    from transformers import PreTrainedTokenizerFast

    with foreign(f"openvino-tokenizers cannot convert {path}"):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), **special)
        both = openvino_tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True, skip_special_tokens=True)
        for graph, name in zip(both, ("openvino_tokenizer", "openvino_detokenizer"), strict=True):
            openvino.save_model(graph, folder / f"{name}.xml")
