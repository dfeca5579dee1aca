"""Models exported by other programs: ONNX with caches, stateful OpenVINO models, Core ML packages."""

import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from backends import prebuilt
from backends.prebuilt import Facts, Prebuilt
from model_store.checkpoint.links import LINK
from model_store.errors import UnsupportedCheckpoint
from model_store.files import read_json, write_json
from model_store.models import StoredModel
from model_store.tokenizers.chat_template import chat_template
from model_store.tokenizers.vocabulary import check_tokenizer

if TYPE_CHECKING:  # listings must not import these
    from model_store.checkpoint.checkpoint import Config

GRAPHS = (
    "openvino_model.xml", "onnx/model.onnx", "model.onnx", "onnx/decoder_model_merged.onnx",
    "decoder_model_merged.onnx",
)  # fmt: skip
"""Exported graphs in the order in which they are looked for."""
PACKAGE = ".mlpackage"
"""The ending of a Core ML package, which is a folder."""
BACKENDS = {".onnx": "onnx", ".xml": "openvino", PACKAGE: "coreml"}
"""The backends that run exports, by ending."""
REASON = "its maker chose it: an export runs as it is, on {} only"
SMALL = (".json", ".txt", ".model", ".jinja")
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "n_ctx")
"""Fields of config.json that may hold the context length."""


def find_export(path: Path) -> Path | None:
    """The exported graph at `path`, or in that folder; None if there is none."""
    if path.is_file() or path.suffix == PACKAGE:
        return path if path.suffix in BACKENDS else None
    there = [path / name for name in GRAPHS if (path / name).is_file()]
    graphs = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    packages = sorted(path.glob(f"*{PACKAGE}"))
    for others, kind in (graphs, "ONNX exports"), (packages, "Core ML packages"):
        if not there and len(others) > 1:
            names = ", ".join(str(one.relative_to(path)) for one in others)
            raise UnsupportedCheckpoint(f"{path} contains several {kind}; give the path of one: {names}")
        there += others
    return next(iter(there), None)


def publisher(graph: Path) -> Path:
    """The folder with the config.json of an exported graph."""
    for folder in (graph.parent, graph.parent.parent):
        if (folder / "config.json").is_file():
            return folder
    raise UnsupportedCheckpoint(f"{graph.parent} has no config.json; download the whole repository of the export")


def graph_files(graph: Path) -> list[Path]:
    """A graph's files: itself and the weights beside it, or all of a package."""
    if graph.is_dir():
        return sorted(path for path in graph.rglob("*") if path.is_file())
    if graph.suffix == ".xml":
        beside = [graph.with_suffix(".bin")]
    else:  # our own are in model.data
        beside = [graph.with_suffix(".data"), *sorted(graph.parent.glob(f"{graph.name}?data*"))]
    return [graph, *(path for path in beside if path.is_file())]


def copy_small(graph: Path, folder: Path) -> None:
    """Copy a publisher's small files to `folder`."""
    for path in sorted(publisher(graph).iterdir()):
        if path.suffix in SMALL and path.name != LINK and path.is_file():
            shutil.copyfile(path, folder / path.name)


def write_files(graph: Path, folder: Path) -> None:
    """Write to `folder` what a checkpoint has apart from weights, and a link to these."""
    inside = graph.is_relative_to(folder)
    if not inside:
        copy_small(graph, folder)
    write_json(folder / LINK, {"file": graph.name if inside else str(graph)})


def describe(folder: Path, graph: Path) -> StoredModel:
    """Describe an export, whose other files are in `folder`; BackendError if its runtime cannot run it."""
    config, backend = read_json(folder / "config.json"), BACKENDS[graph.suffix]
    context = context_length(folder / "config.json", config)
    found: Facts = import_module(f"backends.{backend}.prebuilt").inspect(Prebuilt(str(graph), context))
    check_tokenizer(folder, found.vocab_size)
    return StoredModel(
        name=folder.name,
        folder=folder,
        family=str(config.get("model_type", "unknown")),
        parameters=found.parameters,
        context_length=min(context, found.capacity or context),
        chats=chat_template(folder) is not None,
        size=sum(path.stat().st_size for path in graph_files(graph)),
        own_precision=prebuilt.PRECISION,
        own_precision_reason=REASON.format(backend),
        export=backend,
    )


def context_length(where: object, config: "Config") -> int:
    """The context length that the model was made for."""
    inner = config.get("text_config")
    both = {**config, **(inner if isinstance(inner, dict) else {})}
    found = next((both[name] for name in LENGTHS if both.get(name) is not None), None)
    if type(found) is not int or found < 1:
        raise UnsupportedCheckpoint(f"{where} does not state the context length; correct it")
    return found
