"""Backends are measured while nobody waits for an answer on the screen, and new conversations have the best."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import TIMEOUT_MAX

from backends import Placement
from chatapp.placement.measuring import Measuring
from chatapp.placement.record import Measurement
from chatapp.placement.selection import PlacementOptions
from model_store import Store
from support.screen_driver import beginning, started
from support.scripted_engine import ScriptedEngine

ONNX = Measurement(Placement("onnx", "cpu", "int8"), p50=0.02)
OPENVINO = Measurement(Placement("openvino", "cpu", "int8"), p50=0.01)


class Measurements:
    """All that were begun; each is quiet for longer than the test takes."""

    def __init__(self, folder: Path) -> None:
        self.store, self.begun = Store(folder), list[Measuring]()
        self.tell: Callable[[list[Measurement]], object] = lambda ranking: None

    def __call__(self, name: str, on_end: Callable[[list[Measurement]], object]) -> Measuring:
        self.tell = on_end
        self.begun.append(Measuring(self.store, name, PlacementOptions(), after=TIMEOUT_MAX))
        return self.begun[-1]


async def test_an_answer_stops_what_measures_and_its_end_begins_it_anew(tmp_path: Path) -> None:
    measure, engine = Measurements(tmp_path), ScriptedEngine("Because. " * 50, delay=0.005, can_chat=True)
    start = beginning(engine)
    start.measures = measure
    async with started(start) as driver:
        await driver.until(lambda: measure.begun and measure.begun[-1].is_alive())
        await driver.type("why?\n")
        await driver.until(lambda: driver.pane.reply)
        await driver.until(lambda: all(one.stopping.is_set() for one in measure.begun))
        count = len(measure.begun)
        await driver.until(lambda: not driver.writing)
        await driver.until(lambda: len(measure.begun) > count and not measure.begun[-1].stopping.is_set())


async def test_what_is_faster_is_told_and_answers_the_next_conversation(tmp_path: Path) -> None:
    measure, engine = Measurements(tmp_path), ScriptedEngine(can_chat=True)
    start = beginning(engine)
    start.measures = measure
    async with started(start) as driver:
        await driver.until(lambda: measure.begun)
        measure.tell([ONNX, OPENVINO])
        measure.tell([OPENVINO, ONNX])
        await driver.until(lambda: driver.toasts)
        (told,) = driver.toasts
        assert "openvino decodes 2.0 times as fast as onnx" in told
        assert not driver.screen.engines.opened
        measure.tell([replace(OPENVINO, p50=0.022), ONNX])
        await driver.until(lambda: any("openvino starts answering sooner than onnx" in one for one in driver.toasts))
        measure.tell([OPENVINO])
        await driver.until(lambda: any("onnx gives wrong results" in one for one in driver.toasts))
