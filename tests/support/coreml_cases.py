"""Golden checkpoints as Core ML packages, interpreted, and the reference they are compared with."""

import gc
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

if not find_spec("coremltools"):  # it has no wheels for every system
    pytest.skip("coremltools is not installed", allow_module_level=True)

from backends.coreml.inputs import Package
from backends.coreml.packages import lower
from backends.coreml.session import Session
from backends.coreml.stored import Stored, rounded_constants
from backends.decoder import Decoder, Weights
from backends.quantize import PRECISIONS, Rounded
from backends.reference import Session as ReferenceSession
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support import golden_logits
from support.coreml_interpreter import open_functions

GOLDEN = Path(__file__).parents[1] / "golden"
ANSWERS = GOLDEN.with_name("golden_answers")
CASES = golden_logits.cases_of("coreml")
EXACT = 2e-5
"""In standard deviations of the logits, at most: float32 arithmetic on the weights as they are stored."""
CLOSE = 0.01
"""The same on average, where float16 scales and constants stand for float32 ones, or float16 is computed with."""
CHUNK = 8
"""Tokens of a prefill in these tests, so that short texts have several chunks, and a padded one."""
SLICE = Package("channels", "slice")
Lowered = Callable[..., Path]


def open_case(case: str) -> tuple[Decoder, Weights]:
    """The decoder of a golden checkpoint, and its weights."""
    checkpoint, family, decoder = open_checkpoint((GOLDEN if (GOLDEN / case).is_dir() else ANSWERS) / case)
    return decoder, Canonical(checkpoint, family, decoder)


def tokens_of(case: str) -> np.ndarray:
    """Tokens (3, 24)."""
    tokens: np.ndarray = np.load(GOLDEN / case / "golden.npz")["tokens"]
    return tokens


def lowering(folders: pytest.TempPathFactory) -> Lowered:
    """What lowers a golden checkpoint, once for all tests of all workers that want it so."""
    shared = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # each worker has a folder of its own in it
    shared /= "lowered"
    shared.mkdir(exist_ok=True)

    def make(case: str, precision: str = "f16", packages: Sequence[Package] = (SLICE,)) -> Path:
        folder = shared / "-".join(map(str, (case, precision, *packages)))
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                making = folders.mktemp("lowering")
                gc.freeze()  # coremltools collects garbage for each program: only what it leaves itself
                lower(*open_case(case), making, precision_name=precision, packages=packages, chunk=CHUNK)
                making.rename(folder)
        return folder

    return make


def interpreted(folder: Path, package: Package = SLICE) -> Session:
    """A session on the interpreter."""
    return Session(folder, package, open_functions(folder, package, "cpu"), device="cpu")


def reference(case: str, precision: str = "f16") -> ReferenceSession:
    """The reference, with weights and constants as they are stored."""
    decoder, weights = open_case(case)
    exactly = Stored(Rounded(weights, PRECISIONS[precision]))
    return ReferenceSession(rounded_constants(decoder, decoder.context_length), dict(exactly))


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """How far logits are from those expected, in standard deviations of them, at most."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / expected.std())
