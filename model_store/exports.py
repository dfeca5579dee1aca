"""Models that others have exported for a runtime: ONNX with caches, and stateful OpenVINO models."""

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from backends import foreign
from backends.foreign import Facts, Foreign
from model_store import StoredModel, tokenizer, write_json
from model_store.chat_template import chat_template
from model_store.errors import UnsupportedCheckpoint
from model_store.imported import LINK
from model_store.json_files import read_json
from model_store.vocabulary import check_vocabulary

BACKENDS = {".onnx": "onnx", ".xml": "openvino"}
"""What runs an export, by the end of its file's name."""
USUAL = (
    "openvino_model.xml", "onnx/model.onnx", "model.onnx", "onnx/decoder_model_merged.onnx",
    "decoder_model_merged.onnx",
)  # fmt: skip
"""Files as they are looked for in a folder."""
SMALL = (".json", ".txt", ".model", ".jinja")
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "n_ctx")
"""What config.json may call the context's length."""


def find_export(path: Path) -> Path | None:
    """The exported graph at `path`, a file or a folder; None if there is none."""
    if path.suffix == ".mlpackage" or (path.is_dir() and list(path.glob("*.mlpackage"))):
        raise UnsupportedCheckpoint(
            f"{path} is a Core ML package, and such packages name their inputs, caches and outputs as each maker likes,"
            " so that it cannot be run here; import the checkpoint that it was made of"
        )
    if path.is_file():
        return path if path.suffix in BACKENDS else None
    there = [path / name for name in USUAL if (path / name).is_file()]
    others = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    if not there and len(others) > 1:
        names = ", ".join(str(one.relative_to(path)) for one in others)
        raise UnsupportedCheckpoint(f"{path} holds several ONNX exports; give the path of one of them: {names}")
    return next(iter([*there, *others]), None)


def publisher(graph: Path) -> Path:
    """The folder with the config.json that belongs to an exported graph."""
    for folder in (graph.parent, graph.parent.parent):
        if (folder / "config.json").is_file():
            return folder
    raise UnsupportedCheckpoint(f"{graph.parent} has no config.json; download the whole repository of the export")


def graph_files(graph: Path) -> list[Path]:
    """The files of a graph: itself, and its weights where they are beside it."""
    beside = [graph.with_suffix(".bin")] if graph.suffix == ".xml" else sorted(graph.parent.glob(f"{graph.name}?data*"))
    return [graph, *(path for path in beside if path.is_file())]


def copy_small(graph: Path, folder: Path) -> None:
    """Copy to `folder` what a publisher's folder has beside the weights."""
    for path in sorted(publisher(graph).iterdir()):
        if path.suffix in SMALL and path.name != LINK and path.is_file():
            shutil.copyfile(path, folder / path.name)


def write_files(graph: Path, folder: Path) -> None:
    """Write to `folder` what a checkpoint has beside the weights, and where those are."""
    inside = graph.is_relative_to(folder)
    if not inside:
        copy_small(graph, folder)
    write_json(folder / LINK, {"file": graph.name if inside else str(graph)})


def describe(folder: Path, graph: Path) -> StoredModel:
    """What an export is, whose other files are in `folder`; raises BackendError when its runtime cannot run it."""
    config, backend = read_json(folder / "config.json"), BACKENDS[graph.suffix]
    found = inspect(backend, Foreign(str(graph), context_length(folder, config)))
    content = (
        read_json(folder / "tokenizer.json") if (folder / "tokenizer.json").is_file() else tokenizer.convert(folder)
    )
    check_vocabulary(content, found.vocab_size, folder)
    return StoredModel(
        name=folder.name,
        folder=folder,
        family=str(config.get("model_type", "unknown")),
        parameters=found.parameters,
        context_length=context_length(folder, config),
        chats=chat_template(folder) is not None,
        size=sum(path.stat().st_size for path in graph_files(graph)),
        own_precision=foreign.PRECISION,
        own_precision_reason=f"its maker chose it: an export runs as it is, on {backend} only",
        export=backend,
    )


def inspect(backend: str, found: Foreign) -> Facts:
    """What an export tells about itself."""
    facts: Facts = import_module(f"backends.{backend}.exported").inspect(found)
    return facts


def context_length(folder: Path, config: dict[str, Any]) -> int:  # Any: config.json's
    """Tokens that the model was made for."""
    inner = config.get("text_config")
    both = {**config, **(inner if isinstance(inner, dict) else {})}
    found = next((both[name] for name in LENGTHS if both.get(name) is not None), None)
    if type(found) is not int or found < 1:
        raise UnsupportedCheckpoint(f"{folder / 'config.json'} does not say how long a context is; correct it")
    return found
