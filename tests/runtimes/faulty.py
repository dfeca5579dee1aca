"""Runtimes for Core ML's trials that fail as real ones were seen to: each device's name says how."""

import os
import time
from pathlib import Path

import numpy as np

from backends import BackendError
from backends.coreml.inputs import Package
from backends.coreml.runtime import Functions
from support.coreml_interpreter import Interpreter, State
from support.coreml_interpreter import open_export as open_export
from support.coreml_interpreter import open_functions as interpreted


class Crashing:
    """A function that ends the whole process after some calls."""

    def __init__(self, function: Interpreter, calls: int):
        self.function, self.calls = function, calls

    def make_state(self) -> State:
        return self.function.make_state()

    def predict(self, data: dict[str, np.ndarray], state: State | None = None) -> dict[str, np.ndarray]:
        self.calls -= 1
        if not self.calls:
            os.abort()
        return self.function.predict(data, state)


class Wrong(Crashing):
    """A function whose logits are scaled."""

    def predict(self, data: dict[str, np.ndarray], state: State | None = None) -> dict[str, np.ndarray]:
        outputs = self.function.predict(data, state)
        return outputs | {name: array * 1.5 for name, array in outputs.items() if name.startswith("logits_")}


class Broken(Crashing):
    """A function whose logits are not numbers."""

    def predict(self, data: dict[str, np.ndarray], state: State | None = None) -> dict[str, np.ndarray]:
        outputs = self.function.predict(data, state)
        return outputs | {name: array * np.nan for name, array in outputs.items() if name.startswith("logits_")}


def open_functions(folder: Path, package: Package, device: str) -> Functions:
    """The npu hangs, the gpu crashes after a while where there are states, and the processor is right."""
    if device == "npu":
        time.sleep(3600)
    functions = interpreted(folder, package, device)
    assert isinstance(functions.decode, Interpreter)
    if device == "gpu" and package.policy != "io":
        return Functions(functions.prefill, Crashing(functions.decode, 120))
    if device == "wrong":
        return Functions(functions.prefill, Wrong(functions.decode, 0))
    if device == "broken":
        return Functions(functions.prefill, Broken(functions.decode, 0))
    if device == "refusing":
        raise BackendError("Failed to build the model execution plan with error code: -14")
    return functions


def placement(folder: Path, package: Package, device: str) -> dict[str, float]:
    """Most of it on the device, and the head on the processor."""
    if device == "silent":
        raise BackendError("the compute plan is not available")
    return {"gpu": 0.75, "cpu": 0.25}
