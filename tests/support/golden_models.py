"""Golden checkpoints as models of the store, and a backend that lowers them wrong."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

import backends
from backends.decoder import Decoder, Weights
from model_store import Store, StoredModel

GOLDEN = Path(__file__).parents[1] / "golden"
GOLDEN_ANSWERS = Path(__file__).parents[1] / "golden_answers"
PRECISIONS = ("f32", "int8", "int4")
Make = Callable[[str], StoredModel]


@pytest.fixture
def golden(store: Store, tmp_path: Path) -> Make:
    """The golden checkpoint of a name, with a tokenizer, as a model of the store."""

    def make(case: str) -> StoredModel:
        source = GOLDEN if (GOLDEN / case).is_dir() else GOLDEN_ANSWERS
        folder = Path(shutil.copytree(source / case, tmp_path / case))
        Tokenizer(models.WordLevel({"a": 0}, "a")).save(str(folder / "tokenizer.json"))
        return store.get(str(folder))

    return make


Fault = Callable[[Decoder], Decoder]


class Faulty:
    """ONNX Runtime, lowering something else than it was given."""

    def __init__(self, fault: Fault, weights: Callable[[Weights], Weights] = lambda weights: weights):
        self.fault, self.weights = fault, weights

    def devices(self) -> list[str]:
        return backends.get("onnx").devices()

    def missing(self) -> str:
        return ""

    def signature(self) -> str:
        return "faulty"

    def lower(self, decoder: Decoder, weights: Weights, folder: Path, *, precision: str) -> None:
        backends.get("onnx").lower(self.fault(decoder), self.weights(weights), folder, precision=precision)

    def load(self, folder: Path, *, device: str) -> backends.Session:
        return backends.get("onnx").load(folder, device=device)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Faulty], None]:
    """Make a faulty backend known as `faulty`."""

    def do(faulty: Faulty) -> None:
        monkeypatch.setattr(backends, "NAMES", ("onnx", "faulty"))
        monkeypatch.setitem(sys.modules, "backends.faulty", faulty)

    return do
