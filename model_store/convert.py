"""From a checkpoint to a lowered model."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import backends
from backends.decoder import Decoder, Weight
from model_store import StoredModel, StoreError, UnsupportedCheckpoint, families, tokenizer
from model_store.chat_template import chat_template
from model_store.checkpoint import Checkpoint, weight_files
from model_store.json_files import read_json
from model_store.vocabulary import check_vocabulary
from model_store.weights import Canonical, Family


def describe(folder: Path) -> StoredModel:
    """What the checkpoint in `folder` is; raises UnsupportedCheckpoint when it cannot run."""
    checkpoint, family, decoder = open_checkpoint(folder)
    weights = Canonical(checkpoint, family, decoder)
    published = folder / "tokenizer.json"
    content = read_json(published) if published.is_file() else tokenizer.convert(folder)
    check_vocabulary(content, decoder.vocab_size, published if published.is_file() else folder)
    return StoredModel(
        name=folder.name,
        folder=folder,
        family=str(checkpoint.config["model_type"]),
        parameters=weights.parameters,
        context_length=decoder.context_length,
        chats=chat_template(folder) is not None,
        size=sum(path.stat().st_size for path in weight_files(folder)),
    )


def open_checkpoint(folder: Path) -> tuple[Checkpoint, Family, Decoder]:
    """The checkpoint in `folder`, its family, and the decoder that its configuration describes."""
    checkpoint = Checkpoint(folder)
    family = families.find(checkpoint.config)
    try:
        return checkpoint, family, family.decoder(checkpoint.config)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UnsupportedCheckpoint(f"{folder / 'config.json'} lacks a field or has a wrong one: {error}") from error


def convert(
    source: Path, target: Path, *, backend: str, precision: str, on_progress: Callable[[str, float], None] | None = None
) -> None:
    """Lower the checkpoint in `source` to the folder `target`, reading one weight at a time."""
    checkpoint, family, decoder = open_checkpoint(source)
    weights = Canonical(checkpoint, family, decoder)
    watched = Watched(weights, on_progress) if on_progress else weights
    try:
        backends.get(backend).lower(decoder, watched, target, precision=precision)
    except OSError as error:
        raise StoreError(f"cannot write the lowered model to {target} ({error.strerror or error})") from error


class Watched(Mapping[str, Weight]):
    """The same weights, telling how many of them have been read."""

    def __init__(self, weights: Canonical, on_progress: Callable[[str, float], None], step: str = "lowering"):
        self.weights, self.on_progress, self.step = weights, on_progress, step
        self.read: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)

    def __contains__(self, name: object) -> bool:
        return name in self.weights

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[name]
        self.read.add(name)
        self.on_progress(self.step, len(self.read) / len(self))
        return weight
