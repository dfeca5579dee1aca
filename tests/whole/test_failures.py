"""Backends that fail once they are chosen: what the user is told, and that the turn goes on."""

from dataclasses import replace

import numpy as np
import pytest

import backends.openvino
from backends import BackendError, Placement
from chatapp.cli.main import main
from chatapp.generation import Options
from chatapp.generation.engine import Engine
from chatapp.placement import record
from chatapp.placement.measuring import measure_all
from chatapp.placement.opening import FallbackSession, open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.measured import ONNX

pytestmark = pytest.mark.skipif(not backends.openvino.devices(), reason="OpenVINO is the backend that fails here")
GREEDY = Options(temperature=0, max_tokens=12, logit_bias={0: -100})


@pytest.fixture
def model(store: Store, checkpoint: MakeCheckpoint) -> str:
    """A model for which OpenVINO was found best, then ONNX Runtime."""
    model = store.get(str(checkpoint()))
    found = [
        replace(ONNX, placement=Placement(backend, "cpu", "f32"), p50=seconds)
        for backend, seconds in (("openvino", 0.001), ("onnx", 0.1))
    ]
    record.add(store, model, found)
    return model.name


def text(engine: Engine) -> str:
    return "".join(delta.text for delta in engine.complete("hello", GREEDY))


def test_a_runtime_that_is_not_installed_is_told_and_done_without(
    store: Store, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = record.conditions()
    backends.openvino.devices.cache_clear()
    monkeypatch.setattr(backends.openvino, "find_spec", lambda name: None)
    monkeypatch.setattr(backends.openvino, "version", lambda name: backends.get("onnx").signature() + " no openvino")
    assert record.conditions() != before  # what was measured with it does not count
    assert main(["devices"]) == 0
    assert "openvino is not installed; run: pip install openvino" in capsys.readouterr().out
    with pytest.raises(BackendError, match="openvino cannot run here: openvino is not installed"):
        open_engine(store, model, PlacementOptions("openvino"))
    found = measure_all(store, store.get(model), PlacementOptions(precision="f32"))
    assert [one.placement.backend for one in found] == ["onnx"]
    backends.openvino.devices.cache_clear()


def test_one_that_raises_while_compiling_gives_way(store: Store, model: str) -> None:
    expected = text(open_engine(store, model, PlacementOptions("onnx", precision="f32")))
    variant = store.lowered(store.get(model), "openvino", "f32")
    graph = variant.folder / "model.xml"
    graph.write_bytes(b" " * graph.stat().st_size)
    told: list[str] = []
    engine = open_engine(store, model, PlacementOptions(precision="f32"), on_fallback=told.append)
    assert engine.placement.backend == "onnx"
    assert text(engine) == expected
    assert len(told) == 1 and told[0].startswith("OpenVINO cannot load")
    with pytest.raises(BackendError, match="OpenVINO cannot load"):
        open_engine(store, model, PlacementOptions("openvino", precision="f32"))  # named: nothing else is tried


def test_one_that_dies_in_mid_answer_gives_way_and_the_text_goes_on(
    store: Store, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = text(open_engine(store, model, PlacementOptions("onnx", precision="f32")))
    told: list[str] = []
    engine = open_engine(store, model, PlacementOptions(precision="f32"), on_fallback=told.append)
    assert engine.placement.backend == "openvino"
    assert isinstance(engine.session, FallbackSession)
    inner, calls = engine.session.session, []
    forward = inner.forward

    def dying(tokens: np.ndarray, last: int = 1) -> np.ndarray:
        calls.append(tokens.shape)
        if len(calls) > 5:
            raise RuntimeError("the driver was reset")
        return forward(tokens, last)

    monkeypatch.setattr(inner, "forward", dying)
    assert text(engine) == expected
    assert told == ["openvino failed on cpu: the driver was reset; trying the next best"]
    assert engine.placement.backend == "onnx"
    assert engine.last_usage and engine.last_usage.completion_tokens == 12
