"""Compute a saved package in NumPy: what stands in for Core ML where there is none, and proves what was saved."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends import BackendError
from backends.coreml.inputs import Package
from backends.coreml.operations import FOREIGN, OPERATIONS
from backends.coreml.runtime import Function, Functions
from backends.coreml.tools import MIL_pb2, Model_pb2
from backends.coreml.weights_file import constant, kind_of, shape_of, sizes_of

Shape = tuple[int | None, ...]
"""None for a size that varies from call to call."""
DATA = Path("Data/com.apple.CoreML")
Argument = str | np.ndarray | list["str | np.ndarray"]
"""The name of a value, or a constant; several of them where an operation takes a list."""


def program_of(package: Path) -> tuple[Model_pb2.Model, Path]:
    """A package's specification, and the folder that the names of weight files begin at."""
    specification = Model_pb2.Model()
    try:
        specification.ParseFromString((package / DATA / "model.mlmodel").read_bytes())
    except Exception as error:  # protobuf's own errors have changed their name
        raise BackendError(f"{package} cannot be read ({error}); lower the model anew") from error
    return specification, package / DATA


def exact(values: np.ndarray, kind: str) -> np.ndarray:
    """Everything in float32: only a wrong program differs from the reference."""
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    """What each operation returns rounded to its type: an estimate of what float16 costs."""
    return exact(values.astype(kind), kind) if values.dtype.kind == "f" else values


KNOWN = {**OPERATIONS, **FOREIGN}
Rounding = Callable[[np.ndarray, str], np.ndarray]


@dataclass
class State:
    """Mutable arrays by name, float16 on the device."""

    arrays: dict[str, np.ndarray]

    def read_state(self, name: str) -> np.ndarray:
        """A copy of a state."""
        return self.arrays[name].copy()

    def write_state(self, name: str, value: np.ndarray) -> None:
        """Replace a state."""
        self.arrays[name] = value.astype(self.arrays[name].dtype)


@dataclass(frozen=True)
class Step:
    """One operation: what it is given, and what it makes."""

    kind: str
    inputs: Mapping[str, Argument]
    outputs: tuple[tuple[str, str, Shape], ...]
    """Names, types and shapes."""


class Interpreter:
    """One function of a package, to be called as coremltools' models are."""

    def __init__(self, package: Path, function: str, rounding: Rounding = exact):
        specification, folder = program_of(package)
        if function not in specification.mlProgram.functions:
            raise BackendError(f"{package} has no function {function!r}")
        declared = specification.mlProgram.functions[function]
        block = declared.block_specializations[declared.opset]
        self.rounding = rounding
        self.inputs: dict[str, tuple[str, Shape]] = {}
        self.states: dict[str, tuple[str, tuple[int, ...]]] = {}
        for value in declared.inputs:
            is_state = value.type.WhichOneof("type") == "stateType"
            tensor = (value.type.stateType.wrappedType if is_state else value.type).tensorType
            if is_state:
                self.states[value.name] = kind_of(tensor.dataType), shape_of(tensor)
            else:
                self.inputs[value.name] = kind_of(tensor.dataType), sizes_of(tensor)
        self.constants: dict[str, np.ndarray] = {}
        self.steps: list[Step] = []
        for operation in block.operations:
            self.read(operation, folder)
        self.outputs = list(block.outputs)

    def read(self, operation: MIL_pb2.Operation, folder: Path) -> None:
        """Keep a constant, or append a step."""
        types = [value.type.tensorType for value in operation.outputs]
        names = [value.name for value in operation.outputs]
        if operation.type == "const":
            self.constants[names[0]] = self.rounding(constant(operation.attributes["val"], folder), "<f4")
            return
        inputs: dict[str, Argument] = {}
        for name, argument in operation.inputs.items():
            values = [
                self.constants.get(binding.name, binding.name)
                if binding.WhichOneof("binding") == "name"
                else constant(binding.value, folder)
                for binding in argument.arguments
            ]
            inputs[name] = values if name == "values" else values[0]
        outputs = tuple((n, kind_of(t.dataType), sizes_of(t)) for n, t in zip(names, types, strict=True))
        step = Step(operation.type, inputs, outputs)
        refuse_unknown(step)
        if step.kind.startswith("constexpr_"):  # weights, computed once
            self.constants[names[0]] = self.compute(step, {}, None)[0]
        else:
            self.steps.append(step)

    def make_state(self) -> State:
        """Fresh states, all zero."""
        kind = np.float32 if self.rounding is exact else np.float16
        return State({name: np.zeros(shape, kind) for name, (_, shape) in self.states.items()})

    def predict(self, data: dict[str, np.ndarray], state: State | None = None) -> dict[str, np.ndarray]:
        """Compute the outputs, by name, from inputs that must have the declared names and shapes."""
        given = {name: np.asarray(array).shape for name, array in data.items()}
        declared = {name: shape for name, (_, shape) in self.inputs.items()}
        if given.keys() != declared.keys() or not all(fits(given[name], declared[name]) for name in given):
            raise BackendError(f"the program takes {declared}, and was given {given}")
        values = {name: self.rounding(np.asarray(array), self.inputs[name][0]) for name, array in data.items()}
        for step in self.steps:
            results = self.compute(step, values, state)
            values |= {name: result for (name, _, _), result in zip(step.outputs, results, strict=True)}
        return {name: values[name] for name in self.outputs}

    def compute(self, step: Step, values: Mapping[str, np.ndarray], state: State | None) -> list[np.ndarray]:
        """What a step makes of the values so far."""
        if step.kind in ("read_state", "write_state"):
            if state is None:
                raise BackendError("the program keeps states, and was called without any")
            name = str(step.inputs["input"])
            if step.kind == "write_state":
                state.write_state(name, fetch(step.inputs["data"], values))
                return []
            results = [self.rounding(state.arrays[name], "<f2")]
        else:
            given = {name: fetch(argument, values) for name, argument in step.inputs.items()}
            found = KNOWN[step.kind](**given)
            results = [self.rounding(r, out[1]) for r, out in zip(listed(found), step.outputs, strict=True)]
        for (name, _, shape), result in zip(step.outputs, results, strict=True):
            if not fits(result.shape, shape):
                raise BackendError(
                    f"the program declares {name} as {shape}, and {step.kind} makes {result.shape} of it"
                )
        return results


def fits(shape: tuple[int, ...], declared: Shape) -> bool:
    """Whether an array has the shape that is declared."""
    return len(shape) == len(declared) and all(size in (None, n) for n, size in zip(shape, declared, strict=True))


def refuse_unknown(step: Step) -> None:
    """Refuse an operation, or an input of one, that is not computed here."""
    known = {"read_state": {"input"}, "write_state": {"input", "data"}}.get(step.kind)
    if known is None:
        if step.kind not in KNOWN:
            raise BackendError(f"the program has the operation {step.kind!r}, which the interpreter does not know")
        parameters = inspect.signature(KNOWN[step.kind]).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return
        known = {parameter.name for parameter in parameters}
    if unknown := step.inputs.keys() - known:
        raise BackendError(f"the operation {step.kind!r} has inputs the interpreter does not know: {sorted(unknown)}")


def fetch(argument: Argument, values: Mapping[str, np.ndarray]) -> Any:
    """The array, or the list of them, that an argument stands for."""
    if isinstance(argument, list):
        return [fetch(each, values) for each in argument]
    return values[argument] if isinstance(argument, str) else argument


def listed(found: np.ndarray | list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of an operation."""
    return found if isinstance(found, list) else [found]


def open_functions(folder: Path, package: Package, device: str) -> Functions:
    """A package's functions, computed exactly, on whatever device."""
    path = folder / f"{package}.mlpackage"
    names = program_of(path)[0].mlProgram.functions
    return Functions(**{name: Interpreter(path, name) for name in names})


def open_export(package: Path, folder: Path, device: str) -> Function:
    """The one function of a package of others, computed exactly."""
    (name,) = program_of(package)[0].mlProgram.functions
    return Interpreter(package, name)


def placement(folder: Path, package: Package, device: str) -> dict[str, float]:
    """The interpreter's steps all run on the processor."""
    return {"cpu": 1.0}
