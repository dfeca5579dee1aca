"""The golden checkpoints of every family, their logits, and sessions that compute them."""

from collections.abc import Callable
from functools import lru_cache
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
ANSWERS = GOLDEN.with_name("golden_answers")
"""Of encoder-decoders."""
TOLERANCE = 1e-4
"""Absolute, in float32."""
EVERYWHERE = ("int8", "int4", "int8-128", "int4-asym", "mxfp4")
"""Precisions tried with every family."""
GoldenSession = Callable[[str, str], Session]


def open_golden(case: str) -> tuple[Decoder, Canonical]:
    """The decoder of the golden checkpoint `case`, and its weights."""
    checkpoint, family, decoder = open_checkpoint((GOLDEN if case in CASES else ANSWERS) / case)
    return decoder, Canonical(checkpoint, family, decoder)


def open_case(case: str, backend: str, folder: Path) -> Session:
    """A session of the golden checkpoint `case` in float32."""
    decoder, weights = open_golden(case)
    if backend == "reference":
        return ReferenceSession(decoder, weights)
    backends.get(backend).lower(decoder, weights, folder, precision="f32")
    return backends.get(backend).load(folder, device="cpu")


def golden(case: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (3, 24) and their logits (3, 24, vocab)."""
    arrays = np.load(GOLDEN / case / "golden.npz")
    return arrays["tokens"], arrays["logits"]


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
