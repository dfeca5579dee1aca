"""Lower a checkpoint."""

import shutil
from pathlib import Path

import backends
from backends import Progress, quantize
from backends.decoder import Decoder, Lazy, Weight
from backends.prebuilt import PRECISION, Prebuilt, write
from model_store import families, gguf, prebuilt
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.kept import Kept
from model_store.checkpoint.links import linked
from model_store.checkpoint.weights import Canonical, Family
from model_store.disk import amount
from model_store.errors import StoreError, UnsupportedCheckpoint
from model_store.models import StoredModel
from model_store.tokenizers.chat_template import chat_template
from model_store.tokenizers.vocabulary import check_tokenizer


def describe(folder: Path) -> StoredModel:
    """Describe the model in `folder`; raises UnsupportedCheckpoint if it cannot run."""
    if (path := linked(folder)) and path.suffix in prebuilt.BACKENDS:
        return prebuilt.describe(folder, path)
    checkpoint, family, decoder = open_checkpoint(folder)
    weights = Canonical(checkpoint, family, decoder)
    check_tokenizer(folder, decoder.vocab_size)
    return StoredModel(
        name=folder.name,
        folder=folder,
        family=str(checkpoint.config["model_type"]),
        parameters=weights.parameters,
        context_length=decoder.context_length,
        chats=chat_template(folder) is not None,
        size=sum(path.stat().st_size for path in checkpoint.files),
        own_precision=checkpoint.precision,
        own_precision_reason=checkpoint.precision_reason,
    )


def open_checkpoint(folder: Path) -> tuple[Checkpoint, Family, Decoder]:
    """Open the checkpoint in `folder`: it, its family, and the decoder that its configuration describes."""
    if path := linked(folder):
        if path.suffix in prebuilt.BACKENDS:
            raise UnsupportedCheckpoint(f"{path} is an export and has no reference to compare its logits with")
        return gguf.open_gguf(path)
    checkpoint = Checkpoint(folder)
    try:
        family = families.find(checkpoint.config)
        return checkpoint, family, family.decoder(checkpoint.config)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise UnsupportedCheckpoint(f"{folder / 'config.json'} lacks a field or has a wrong one: {error}") from error


def convert(source: Path, target: Path, *, backend: str, precision: str, on_progress: Progress | None = None) -> None:
    """Lower the checkpoint in `source` to the folder `target`, one weight in memory at a time."""
    if (path := linked(source)) and path.suffix in prebuilt.BACKENDS:
        if (backend, precision) != (prebuilt.BACKENDS[path.suffix], PRECISION):
            raise StoreError(
                f"{path} is an export for {prebuilt.BACKENDS[path.suffix]} and runs as it is, not on {backend} at"
                f" {precision}; leave out --precision, or import the checkpoint that it was made of"
            )
        return write(target, Prebuilt(str(path), prebuilt.describe(source, path).context_length))
    checkpoint, family, decoder = open_checkpoint(source)
    weights = Canonical(checkpoint, family, decoder)
    needed, free = expected_size(weights, precision), shutil.disk_usage(target).free
    if needed > free:
        raise StoreError(
            f"{target.parent.name} needs about {amount(needed)} at {precision}, and {amount(free)} are free in "
            f"{target.parent}; free some space, or set CHATAPP_HOME to a folder on a larger disk"
        )
    given = kept(checkpoint, weights, precision)
    watched = Watched(given, on_progress) if on_progress else given
    try:
        backends.get(backend).lower(decoder, watched, target, precision=precision)
    except OSError as error:
        written = sum(path.stat().st_size for path in target.rglob("*"))
        raise StoreError(
            f"cannot write the lowered model to {target.parent} ({error.strerror or error}): {amount(written)} of "
            f"about {amount(needed)} were written; free some space, or set CHATAPP_HOME to another folder"
        ) from error
    if on_progress:
        on_progress("lowering", 1.0)


def kept(checkpoint: Checkpoint, weights: Canonical, precision: str) -> Canonical | Kept:
    """The weights for `precision`: those that have it already are not converted to float in between."""
    return Kept(weights) if precision == checkpoint.exact else weights


def expected_size(weights: Canonical, name: str) -> int:
    """The estimated bytes of the weights at the precision `name`."""
    to = quantize.precision(name)
    size = 0.0
    for weight in weights:
        if weight == "lm_head" and weights.head_is_embedding and to.round:
            continue  # stored once; unrounded embeddings may be stored in both orders
        for tensor in weights.parts(weight):
            bits = 32.0
            if to.round and len(tensor.shape) == 2 and not weight.endswith(quantize.EXACT):
                columns = tensor.shape[1]
                block = quantize.block_for(columns, to.block) if to.block else columns
                bits = to.bits + 32 / block if block else 8 + 32 / columns
            size += tensor.size * bits / 8
    return int(size)


class Watched(Lazy):
    """Weights that report progress, by bytes read."""

    def __init__(self, weights: Canonical | Kept, on_progress: Progress, step: str = "lowering"):
        self.table = self.weights = weights
        self.on_progress, self.step = on_progress, step
        self.sizes = {name: sum(tensor.nbytes for tensor in weights.parts(name)) for name in weights}
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Weight:
        self.on_progress(self.step, sum(self.sizes[done] for done in self.read) / sum(self.sizes.values()))
        weight = self.weights[name]
        self.read.add(name)  # counts once the next one is asked for
        return weight
