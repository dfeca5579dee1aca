"""What runs a package's functions: Core ML, or an interpreter in its place."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from backends.coreml.inputs import Package


class State(Protocol):
    """Keys and values of one row of tokens."""

    def read_state(self, name: str) -> np.ndarray: ...
    def write_state(self, name: str, value: np.ndarray) -> None: ...


class Function(Protocol):
    """One function of a package, as coremltools offers it."""

    def predict(self, data: dict[str, np.ndarray], state: Any = None) -> dict[str, np.ndarray]: ...
    def make_state(self) -> State: ...


@dataclass(frozen=True)
class Functions:
    """The functions of a package, which can share a state."""

    prefill: Function
    decode: Function
    encode: Function | None = None


class Runtime(Protocol):
    """A module that opens packages."""

    def open_functions(self, folder: Path, package: Package, device: str) -> Functions:
        """Load a lowered package for one of the devices of `backends.coreml.devices`."""

    def open_export(self, package: Path, folder: Path, device: str) -> Function:
        """Load the only function of a package from other programs for a device, compiled to `folder`."""

    def placement(self, folder: Path, package: Package, device: str) -> dict[str, float]:
        """Each device's share of a decoding step's estimated work, as the runtime plans it."""


def runtime(module: str) -> Runtime:
    """Import the runtime in the module of this name."""
    return cast(Runtime, import_module(module))  # modules meet the protocol
