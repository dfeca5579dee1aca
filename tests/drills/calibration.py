"""A calibration in a process that has more backends than ours: each goes wrong in a way of its own.

Not a test: `test_calibration.py` starts it in place of `python -m chatapp.placement.calibration`.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import backends
from backends import BackendError, Session, onnx
from chatapp.placement import calibration
from chatapp.placement.opening import FallbackSession


def load(folder: Path, *, device: str) -> Session:
    """Do what the device's name says."""
    if device == "refuses":
        raise BackendError("the driver is too old")
    if device == "crashes":
        print("assertion failed in the driver", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if device == "exits":
        os._exit(3)
    if device == "hangs":
        time.sleep(1000)
    if device == "prints":
        os.write(1, b"a runtime's own greeting\n")
    session = onnx.load(folder, device="cpu")
    return Liar(session) if device == "lies" else session


class Liar(FallbackSession):
    """Gives logits that are a little wrong."""

    def __init__(self, session: Session):
        super().__init__([lambda: session], print)

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        return super().forward(tokens, last) + np.linspace(0, 0.01, self.vocab_size, dtype=np.float32)


def add(name: str, signature: Callable[[], str]) -> None:
    """Add a backend."""
    module = ModuleType(f"backends.{name}")
    vars(module).update(load=load, lower=onnx.lower, signature=signature, devices=onnx.devices, missing=onnx.missing)
    sys.modules[f"backends.{name}"] = module


add("drill", onnx.signature)
add("restless", lambda: f"process {os.getpid()}")  # what another process has lowered is out of date
vars(backends)["NAMES"] = ("onnx", "drill", "restless")
calibration.main()
