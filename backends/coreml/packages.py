"""Write a lowered folder: packages, embeddings, and reference logits for trials."""

import filecmp
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from backends import BackendError
from backends.coreml.inputs import BIAS, EMBEDDINGS, Inputs, Lowered, Package
from backends.coreml.stored import Stored, Table, read_tables, rounded_constants, write_tables
from backends.decoder import Decoder, Weights
from backends.forward import refuse_states
from backends.quantize import Rounded, precision
from backends.reference import Session as ReferenceSession

CHUNK = 64
"""Tokens per prefill: fewer waste the Neural Engine's convolutions."""
GATHERED = 1 << 29
"""Most bytes of float16 experts' matrices that a prefill may gather, which limits its tokens."""
LONGEST = 2048
"""Most tokens of context: shapes are fixed, so that every step reads the whole cache."""
LONGEST_WITH_ENCODER = 512
"""The same with an encoder, which reads a context's worth of tokens, padded, for every prompt."""
STEP = 64
"""The cache's capacity is a multiple of this; some Neural Engines need states with a multiple of 32."""
PACKAGES: dict[str, tuple[Package, ...]] = {
    "npu": tuple(Package("channels", policy) for policy in ("slice", "io", "onehot")),
    "gpu": tuple(Package("plain", policy) for policy in ("slice", "io")),
    "cpu": tuple(Package("plain", policy) for policy in ("slice", "io")),
}
"""The packages that may run on each device; trials on the machine decide."""
ALL = tuple(dict.fromkeys(package for packages in PACKAGES.values() for package in packages))
PROBED = 12
"""Tokens with reference logits: decoded one by one after prefills of a whole and of a padded chunk."""
WEIGHTS = Path("Data/com.apple.CoreML/weights/weight.bin")


@dataclass(frozen=True)
class Contents:
    """What a lowered folder says of itself, as JSON."""

    lowered: Lowered
    tables: dict[str, Table]


def lower(
    decoder: Decoder,
    weights: Weights,
    folder: Path,
    *,
    precision_name: str,
    packages: Sequence[Package] = ALL,
    chunk: int = CHUNK,
) -> None:
    """Write packages of `decoder` to `folder`, and check each as far as possible without running it.

    Core ML computes in float16, so that f32 becomes, and is called, f16.
    """
    refuse_states(decoder)
    from backends.coreml import lowering, structure

    if decoder.per_layer_size or len(decoder.cached_layers) < len(decoder.layers):
        raise BackendError(lowering.UNEVEN)
    precision_name = "f16" if precision_name == "f32" else precision_name
    rounded = Rounded(weights, precision(precision_name))
    longest = LONGEST_WITH_ENCODER if decoder.encoder else LONGEST
    context = min(decoder.context_length, longest, decoder.border or longest)
    packages = [package for package in packages if package.policy == "io" or not decoder.encoder]
    fixed = rounded_constants(decoder, context)
    chunk = tokens_at_once(decoder, chunk)
    lowered = Lowered(fixed, precision_name, capacity=-(-context // STEP) * STEP, chunk=chunk)
    found = {name: Stored(rounded)[name].values for name in rounded if name in EMBEDDINGS or name.endswith(BIAS)}
    for package in packages:
        weights_once = Stored(rounded)  # re-read for each package, which reports progress
        program = lowering.program(lowered, weights_once, Inputs(lowered, package, found))
        path = folder / f"{package}.mlpackage"
        lowering.convert(program, path)
        structure.check(path, lowered, package)
    share_weights([folder / f"{package}.mlpackage" / WEIGHTS for package in packages])
    write_expected(decoder, rounded, folder, context=context, chunk=chunk)
    facts = {"lowered": asdict(lowered), "tables": write_tables(folder, found)}
    (folder / "decoder.json").write_text(json.dumps(facts))


def tokens_at_once(decoder: Decoder, chunk: int) -> int:
    """Tokens per prefill: `chunk`, or as many as keep gathered experts within bounds, at least two."""
    experts = decoder.experts
    if not experts:
        return chunk
    gate_up_down = 3 * experts.size * decoder.hidden_size * np.dtype(np.float16).itemsize
    return max(2, min(chunk, GATHERED // (experts.chosen * gate_up_down)))


def share_weights(paths: Sequence[Path]) -> None:
    """Replace equal files by hard links, where the file system has them."""
    for i, path in enumerate(paths):
        for earlier in paths[:i]:
            if filecmp.cmp(earlier, path, shallow=False):
                temporary = path.with_name("link")
                try:
                    os.link(earlier, temporary)
                except OSError:
                    break
                temporary.replace(path)
                break


def write_expected(decoder: Decoder, weights: Weights, folder: Path, *, context: int, chunk: int) -> None:
    """Write tokens, and the reference's logits for the last of them."""
    count = min(context, chunk + chunk // 2 + PROBED)
    tokens = np.random.default_rng(0).integers(0, decoder.vocab_size, count)
    before, session = count - min(PROBED, count - 1), ReferenceSession(decoder, weights)
    logits = [session.forward(tokens[None, :before])[0]]
    logits.append(session.forward(tokens[None, before:], last=count - before)[0])
    np.savez(folder / "expected.npz", tokens=tokens, logits=np.concatenate(logits))


def expected(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read tokens, and the reference's logits (last, vocab) for the last of them."""
    try:
        with np.load(folder / "expected.npz") as arrays:
            return arrays["tokens"], arrays["logits"]
    except (OSError, KeyError, ValueError) as error:
        raise unreadable(folder, error) from error


def contents(folder: Path) -> Contents:
    """Read what `lower` wrote to `folder`, except the packages."""
    try:
        facts = json.loads((folder / "decoder.json").read_text())
        return Contents(Lowered.from_json(facts["lowered"]), read_tables(folder, facts["tables"]))
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise unreadable(folder, error) from error


def present(folder: Path, device: str) -> list[Package]:
    """The packages in `folder` that may run on a device."""
    return [package for package in PACKAGES[device] if (folder / f"{package}.mlpackage").exists()]


def unreadable(folder: Path, error: Exception) -> BackendError:
    """The error for a folder that is not as `lower` left it."""
    return BackendError(f"Core ML cannot load {folder}: {error}; delete the folder to lower the model again")
