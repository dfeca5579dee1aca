"""The golden checkpoints of every family, their logits, and sessions that compute them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session
from backends.decoder import Decoder
from backends.reference import Session as ReferenceSession
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
STATES = (
    "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid-", "jamba", "lfm2", "lfm3", "mamba", "nemotron_h",
    "olmo_hybrid", "qwen3_5", "qwen3_next",
)  # fmt: skip
RECURRENT = tuple(case for case in CASES if case.startswith(STATES))
"""Those whose layers keep states."""
REFUSED = {
    "onnx": ("gemma4_text-experts",),
    "openvino": RECURRENT,
    "coreml": (*RECURRENT, *(case for case in CASES if case.startswith(("gemma3n", "gemma4")))),
}
"""Cases that a backend does not run: experts that gelu activates, layers that keep states, and layers that differ in
their heads."""
ANSWERS = GOLDEN.with_name("golden_answers")
"""Of encoder-decoders."""
TOLERANCE = 1e-4
"""Absolute, in float32."""
EVERYWHERE = ("int8", "int4", "int8-128", "int4-asym", "mxfp4")
"""Precisions tried with every feature of a decoder."""
GoldenSession = Callable[[str, str], Session]
Features = frozenset[tuple[object, ...]]


def cases_of(backend: str) -> tuple[str, ...]:
    """The cases that a backend runs."""
    return tuple(case for case in CASES if case not in REFUSED.get(backend, ()))


@cache
def features_of(case: str) -> Features:
    """What a backend sees of a checkpoint: the options of its decoder, as 0, 1 or other numbers, whether its layers
    differ in them, and the kinds of its weights."""
    decoder, weights = open_golden(case)
    found: set[tuple[object, ...]] = {("weight", re.sub(r"\d+", "0", name)) for name in weights}

    def describe(path: str, part: object) -> None:
        if is_dataclass(part):
            for field in fields(part):
                describe(f"{path}.{field.name}", getattr(part, field.name))
        elif isinstance(part, tuple) and part and is_dataclass(part[0]):
            for one in part:
                describe(path, one)
            found.add((path, "alike", len(set(part)) == 1))
        else:
            found.add((path, part if isinstance(part, str) or part in (0, 1) else bool(part)))

    describe("", decoder)
    first = decoder.layers[0]
    found.add(("heads that share keys", first.kv_heads == first.heads, first.kv_heads == 1))
    return frozenset(found)


def cover(features: Mapping[str, Features]) -> list[str]:
    """Few cases that have every feature between them."""
    chosen: list[str] = []
    lacking = frozenset[tuple[object, ...]]().union(*features.values())
    while lacking:
        chosen.append(max(sorted(features), key=lambda case: len(features[case] & lacking)))
        lacking -= features[chosen[-1]]
    return sorted(chosen)


@cache
def every_feature(of: tuple[str, ...] = ()) -> list[str]:
    """Golden checkpoints, of all or of these, that have every feature of a decoder between them.

    Backends know decoders, and no families: where one takes long, or is tried in many ways, these are tried.
    """
    return cover({case: features_of(case) for case in of or CASES})


@cache
def every_pair_of_features(of: tuple[str, ...] = ()) -> list[str]:
    """The same with every two features that some checkpoint has together."""
    single = {case: features_of(case) for case in of or CASES}
    return cover({case: frozenset(combinations(sorted(found, key=str), 2)) for case, found in single.items()})


def open_golden(case: str) -> tuple[Decoder, Canonical]:
    """The decoder of the golden checkpoint `case`, and its weights."""
    checkpoint, family, decoder = open_checkpoint((GOLDEN if case in CASES else ANSWERS) / case)
    return decoder, Canonical(checkpoint, family, decoder)


def open_case(case: str, backend: str, folder: Path) -> Session:
    """A session of the golden checkpoint `case` in float32."""
    decoder, weights = open_golden(case)
    if backend == "reference":
        return ReferenceSession(decoder, dict(weights))  # read once, and not at every step
    backends.get(backend).lower(decoder, weights, folder, precision="f32")
    return backends.get(backend).load(folder, device="cpu")


@cache
def golden(case: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (3, 24) and their logits (3, 24, vocab); nobody may change them."""
    arrays = np.load(GOLDEN / case / "golden.npz")
    tokens, logits = arrays["tokens"], arrays["logits"]
    tokens.flags.writeable = logits.flags.writeable = False
    return tokens, logits


@pytest.fixture(scope="session")
def golden_session(tmp_path_factory: pytest.TempPathFactory) -> GoldenSession:
    """Give a session of a golden checkpoint with nothing in its cache; the last one is given again."""

    @lru_cache(maxsize=1)
    def opened(case: str, backend: str) -> Session:
        return open_case(case, backend, tmp_path_factory.mktemp("lowered"))

    def give(case: str, backend: str) -> Session:
        session = opened(case, backend)
        session.rewind(0)
        return session

    return give
