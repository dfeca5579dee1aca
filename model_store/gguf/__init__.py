"""Models in GGUF files, read in place."""

import json
from pathlib import Path

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.links import LINK
from model_store.errors import UnsupportedCheckpoint
from model_store.gguf import architectures
from model_store.gguf.architectures import GgufFamily
from model_store.gguf.config import config_of
from model_store.gguf.reader import Header, read_header
from model_store.gguf.tensors import own_precision, tensors_of
from model_store.gguf.vocabulary import tokenizer_files


class GgufCheckpoint(Checkpoint):
    """A GGUF file as a checkpoint."""

    def __init__(self, path: Path):
        self.header: Header = read_header(path)
        self.folder, self.files = path, [path]
        self.tensors = tensors_of(self.header)
        self.config = config_of(self.header, self.tensors)
        self.precision, self.precision_reason, self.exact = own_precision(self.tensors)


def open_gguf(path: Path) -> tuple[GgufCheckpoint, GgufFamily, Decoder]:
    """Open a GGUF file: its checkpoint, its family, and the decoder that its keys describe."""
    checkpoint = GgufCheckpoint(path)
    architecture = architectures.find(checkpoint.header.metadata.get("general.architecture"))
    family = GgufFamily(architecture, checkpoint.config, checkpoint.tensors)
    try:
        decoder = family.decoder(checkpoint.config)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UnsupportedCheckpoint(f"{path} lacks a key or has a wrong one: {error}") from error
    wanted = checkpoint.config.get("num_key_value_heads", decoder.layers[0].kv_heads)
    if wanted != decoder.layers[0].kv_heads:
        raise UnsupportedCheckpoint(f"{path} asks for {wanted} key-value heads, which its architecture has not")
    return checkpoint, family, decoder


def write_files(path: Path, folder: Path) -> None:
    """Write to `folder` what a publisher's folder has apart from weights, from the GGUF file at `path`."""
    checkpoint, _, _ = open_gguf(path)
    inside = path.is_relative_to(folder)
    files = {"config.json": dict(checkpoint.config), **tokenizer_files(checkpoint.header)}
    for name, content in {**files, LINK: {"file": path.name if inside else str(path)}}.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
