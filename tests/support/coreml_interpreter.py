"""Compute a saved package in NumPy: what stands in for Core ML where there is none, and proves what was saved."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from backends import BackendError
from backends.coreml.contract import DATA, sizes_of, specification_of
from backends.coreml.inputs import Package
from backends.coreml.runtime import Function, Functions
from backends.coreml.structure import shape_of
from backends.coreml.tools import MIL_pb2
from support.coreml_operations import FOREIGN, OPERATIONS

SENTINEL = 0xDEADBEEF
HEADER = np.dtype([("sentinel", "<u4"), ("kind", "<u4"), ("size", "<u8"), ("offset", "<u8"), ("padding", "<u8")])
"""What stands before each array in weight.bin, at the offset that the program names."""
BLOBS = {1: "<f2", 2: "<f4", 3: "u1", 4: "i1", 8: "int4", 11: "uint4", 14: "<i4"}
"""Types of arrays by the numbers that weight.bin has for them."""
KINDS = {
    MIL_pb2.FLOAT16: "<f2",
    MIL_pb2.FLOAT32: "<f4",
    MIL_pb2.INT32: "<i4",
    MIL_pb2.INT8: "i1",
    MIL_pb2.UINT8: "u1",
    MIL_pb2.INT4: "int4",
    MIL_pb2.UINT4: "uint4",
    MIL_pb2.BOOL: "?",
    MIL_pb2.STRING: "U",
}
"""The types of a program's values that this backend writes."""
Shape = tuple[int | None, ...]
"""None for a size that varies from call to call."""
Argument = str | np.ndarray | list["str | np.ndarray"]
"""The name of a value, or a constant; several of them where an operation takes a list."""


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
        specification, files = specification_of(package), Files(package / DATA)
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
            self.read(operation, files)
        self.outputs = list(block.outputs)

    def read(self, operation: MIL_pb2.Operation, files: "Files") -> None:
        """Keep a constant, or append a step."""
        types = [value.type.tensorType for value in operation.outputs]
        names = [value.name for value in operation.outputs]
        if operation.type == "const":
            self.constants[names[0]] = self.rounding(constant(operation.attributes["val"], files), "<f4")
            return
        inputs: dict[str, Argument] = {}
        for name, argument in operation.inputs.items():
            values = [
                self.constants.get(binding.name, binding.name)
                if binding.WhichOneof("binding") == "name"
                else constant(binding.value, files)
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
        known = parameters_of(step.kind)
        if known is None:
            return
    if unknown := step.inputs.keys() - known:
        raise BackendError(f"the operation {step.kind!r} has inputs the interpreter does not know: {sorted(unknown)}")


@cache
def parameters_of(kind: str) -> set[str] | None:
    """The inputs of an operation; None where it takes any."""
    parameters = inspect.signature(KNOWN[kind]).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


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
    names = specification_of(path).mlProgram.functions
    return Functions(**{name: Interpreter(path, name) for name in names})


def open_export(package: Path, folder: Path, device: str) -> Function:
    """The one function of a package of others, computed exactly."""
    (name,) = specification_of(package).mlProgram.functions
    return Interpreter(package, name)


def placement(folder: Path, package: Package, device: str) -> dict[str, float]:
    """The interpreter's steps all run on the processor."""
    return {"cpu": 1.0}


def kind_of(kind: int) -> str:
    """The name of a type, as NumPy has it except for int4 and uint4."""
    if kind not in KINDS:
        raise BackendError(
            f"the program has a value of the type {MIL_pb2.DataType.Name(kind)}, which is not known here"
        )
    return KINDS[kind]


class Files(dict[str, np.ndarray]):
    """The bytes of the files in a folder, which the program's `@model_path` stands for; each is read once."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = np.frombuffer((self.folder / name.removeprefix("@model_path/")).read_bytes(), np.uint8)
        return self[name]


def constant(value: MIL_pb2.Value, files: Files) -> np.ndarray:
    """A constant, which may be in a file."""
    tensor = value.type.tensorType
    kind, shape = kind_of(tensor.dataType), shape_of(tensor)
    if value.WhichOneof("value") == "blobFileValue":
        found = blob(files, value.blobFileValue.fileName, value.blobFileValue.offset, kind)
        return found[: int(np.prod(shape))].reshape(shape)
    written = value.immediateValue.tensor
    field = written.WhichOneof("value")
    if field == "bytes":
        if kind in ("int4", "uint4"):
            return nibbles(np.frombuffer(written.bytes.values, np.uint8), kind)[: int(np.prod(shape))].reshape(shape)
        return np.frombuffer(written.bytes.values, kind).reshape(shape)
    return np.array(list(getattr(written, field).values), kind).reshape(shape)


def blob(files: Files, name: str, offset: int, kind: str) -> np.ndarray:
    """The array that a file has at `offset`, flat."""
    stored = files[name]
    if offset + HEADER.itemsize > len(stored):
        raise BackendError(f"{files.folder}/{name} is shorter than its program says; lower the model anew")
    header = stored[offset : offset + HEADER.itemsize].view(HEADER)[0]
    begin, end = int(header["offset"]), int(header["offset"] + header["size"])
    if header["sentinel"] != SENTINEL or BLOBS.get(int(header["kind"])) != kind:
        raise BackendError(f"{files.folder}/{name} holds no {kind} at {offset}, as its program says")
    if end > len(stored):
        raise BackendError(f"{files.folder}/{name} is shorter than its program says; lower the model anew")
    values = stored[begin:end]
    return nibbles(values, kind) if kind in ("int4", "uint4") else values.view(kind)


def nibbles(stored: np.ndarray, kind: str) -> np.ndarray:
    """Two numbers of four bits from each byte, the low one first, as int8."""
    found = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1).astype(np.int8)
    return (found ^ 8) - 8 if kind == "int4" else found
