"""A reference from a file: tokens and logits as .npz or .safetensors, without pickle.

`tokens` (rows, length) and `logits` (rows, positions, vocabulary) of the last positions of each row are enough. chatapp
also writes `logits.PRECISION` (with rounded weights), `window.tokens`, `window.logits` and `window.logits.PRECISION`
(for the prompt that exceeds a window), `made_by`, the name of what computed them, and `model`, a digest of the
checkpoint's tensors.
"""

import hashlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from backends.decoder import Decoder
from chatapp.evaluation.verify import VerifyError
from chatapp.evaluation.verify.prompts import Prompts
from chatapp.evaluation.verify.reference import Logits, Reference, add_numpy, check_finite
from chatapp.text.files import replacing
from model_store import Progress, StoredModel, StoreError
from model_store.checkpoint.checkpoint import DTYPES, Checkpoint, tensors
from model_store.convert import open_checkpoint

PARTS = ("", "window.")
INTEGERS = {"U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32, "I32": np.int32}
NUMBERS = {**DTYPES, **{name: np.dtype(kind) for name, kind in INTEGERS.items()}, "I64": np.dtype(np.int64)}
"""Data types of a safetensors file."""
FEWEST = 4
"""Least positions per row."""
NOTHING = np.empty(0)


def from_file(path: Path, model: StoredModel, precision: str, on_progress: Progress | None = None) -> Reference:
    """Read a reference, and check that it can be that of `model`.

    Logits for weights rounded to `precision` are computed with the NumPy decoder if the file lacks them.
    """
    arrays = read(path)
    checkpoint, _, decoder = open_checkpoint(model.folder)
    made_from = arrays.pop("model", None)
    if made_from is not None and not np.array_equal(made_from, digest(checkpoint)):
        raise VerifyError(
            f"{path} was made from another checkpoint than {model.name}; to make one from it: --write FILE"
        )
    for name in ("tokens", "logits"):
        if name not in arrays:
            raise VerifyError(f"{path} has no array {name!r} (it has: {', '.join(sorted(arrays)) or 'none'})")
    maker = bytes(arrays.pop("made_by", NOTHING).astype(np.uint8)).decode(errors="replace")
    parts = [part for part in PARTS if {f"{part}tokens", f"{part}logits"} <= arrays.keys()]
    for part in parts:
        check(arrays[f"{part}tokens"], arrays[f"{part}logits"], f"{path}: {part}logits", model, decoder)

    def logits(kind: str) -> Logits:
        return tuple(check_finite(arrays[part + kind]) for part in parts)

    def prompts(part: str) -> Prompts:
        tokens = arrays[f"{part}tokens"].astype(np.int64)
        first = tokens.shape[1] - arrays[f"{part}logits"].shape[1]
        return Prompts(tokens, first, bool(decoder.encoder))

    shapes = [arrays[f"{part}logits"].shape for part in parts]
    kinds = [name for name in arrays if name.startswith("logits.")]
    complete = [kind for kind in kinds if [arrays.get(part + kind, NOTHING).shape for part in parts] == shapes]
    rounded = {kind.removeprefix("logits."): logits(kind) for kind in complete}
    name = f"{path.name} ({maker})" if maker else path.name
    reference = Reference(name, tuple(prompts(part) for part in parts), logits("logits"), rounded)
    return add_numpy(reference, model, precision, on_progress)


def check(tokens: np.ndarray, logits: np.ndarray, name: str, model: StoredModel, decoder: Decoder) -> None:
    """Raise for arrays whose sizes are not this model's, or that are too short."""
    vocabulary = decoder.vocab_size
    if tokens.ndim != 2 or logits.ndim != 3 or len(tokens) != len(logits) or not tokens.size:
        raise VerifyError(
            f"{name} has shape {logits.shape} and the tokens {tokens.shape}; "
            "expected (rows, positions, vocabulary) and (rows, length)"
        )
    if logits.shape[2] != vocabulary:
        raise VerifyError(
            f"{name} is of {logits.shape[2]:,} tokens and {model.name} has {vocabulary:,}; "
            "the file was made from another model"
        )
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise VerifyError(
            f"{name} is for the tokens {tokens.min()} to {tokens.max()} and {model.name} has {vocabulary:,}; "
            "the file was made from another model"
        )
    if not FEWEST <= logits.shape[1] <= tokens.shape[1] <= decoder.context_length:
        raise VerifyError(
            f"{name} has {logits.shape[1]} positions in rows of {tokens.shape[1]} tokens; "
            f"expected {FEWEST} or more, in at most {decoder.context_length:,} tokens"
        )


def read(path: Path) -> dict[str, np.ndarray]:
    """The numeric arrays in a file."""
    try:
        if path.suffix == ".safetensors":
            arrays = {name: np.asarray(tensor) for name, tensor in tensors(path, NUMBERS).items()}
        else:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except (ValueError, TypeError, EOFError, BadZipFile, AttributeError, StoreError) as error:
        why = error if isinstance(error, StoreError) else "it is not an archive of numeric arrays"  # NumPy says: pickle
        advice = "to make one: chatapp verify MODEL --write FILE"
        raise VerifyError(f"{path} is not a reference file ({why}); {advice}") from error
    for name, array in arrays.items():
        wanted = np.floating if "logits" in name else np.integer
        is_wide = array.dtype == DTYPES["BF16"] and wanted is np.floating
        if not is_wide and not np.issubdtype(array.dtype, wanted):
            raise VerifyError(f"{path}: {name} holds {array.dtype} and not {wanted.__name__} numbers")
    return {name: array.astype(np.float32) if "logits" in name else array for name, array in arrays.items()}


def check_destination(text: str) -> Path:
    """The path to write a reference to; raises at once if there is no such folder."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise VerifyError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    return path


def write(reference: Reference, model: StoredModel, path: Path) -> None:
    """Write a reference for use elsewhere, whole or not at all."""
    arrays: dict[str, np.ndarray] = {"model": digest(open_checkpoint(model.folder)[0])}
    arrays["made_by"] = np.frombuffer(reference.name.encode(), np.uint8)
    for part, prompts in zip(PARTS, reference.prompts, strict=False):
        arrays[f"{part}tokens"] = prompts.tokens
    for kind, logits in {
        "logits": reference.original,
        **{f"logits.{name}": one for name, one in reference.rounded.items()},
    }.items():
        arrays |= {part + kind: values for part, values in zip(PARTS, logits, strict=False)}
    try:
        with replacing(path) as file:
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise VerifyError(f"cannot write {path} ({error.strerror or error}); choose another place") from error


def digest(checkpoint: Checkpoint) -> np.ndarray:
    """A digest that identifies a checkpoint: of all names and shapes, all vectors, and the smallest matrix.

    32 bytes; quick for large checkpoints too.
    """
    found = hashlib.sha256()
    parts = sorted(checkpoint.tensors.items())
    smallest = min(parts, key=lambda part: (len(part[1].shape) < 2, part[1].size))[0]
    for name, tensor in parts:
        found.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        if len(tensor.shape) < 2 or name == smallest:
            found.update(np.ascontiguousarray(tensor).tobytes())
    return np.frombuffer(found.digest(), np.uint8)
