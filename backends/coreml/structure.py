"""Check a saved package against the rules of Core ML and the Neural Engine, without running it."""

from pathlib import Path

from backends import BackendError
from backends.coreml.contract import sizes_of, specification_of
from backends.coreml.inputs import KINDS, Lowered, Package, stacked_shape
from backends.coreml.tools import MIL_pb2, Model_pb2

VERSION = 9
"""The specification version of iOS 18 and macOS 15, the first with states and several functions."""
FLOAT16, INT32 = Model_pb2.ArrayFeatureType.FLOAT16, Model_pb2.ArrayFeatureType.INT32
FLOWING = {MIL_pb2.FLOAT16, MIL_pb2.INT32, MIL_pb2.INT8, MIL_pb2.UINT8, MIL_pb2.BOOL}
"""Types allowed between operations; the Neural Engine has no wider floats."""
OPERATIONS = {
    "abs", "add", "cast", "clip", "concat", "constexpr_blockwise_shift_scale", "conv", "elu", "exp", "floor",
    "gather", "gather_along_axis", "gelu", "greater_equal", "identity", "layer_norm", "less_equal", "linear",
    "matmul", "maximum", "mul", "real_div", "reduce_min", "reduce_sum", "relu", "reshape", "select", "sigmoid",
    "silu", "slice_by_index", "slice_update", "softmax", "split", "stack", "sub", "tanh", "topk", "transpose",
}  # fmt: skip
"""The operations that we write, apart from constants and states."""


def check(path: Path, lowered: Lowered, package: Package) -> None:
    """Raise BackendError for the first rule that the package at `path` breaks."""
    specification = specification_of(path)
    functions = specification.mlProgram.functions
    require(specification.specificationVersion == VERSION, path, "has another specification's version")
    names = {"prefill", "decode", *(["encode"] if lowered.prompt else [])}
    require(set(functions) == names, path, f"has other functions than {', '.join(sorted(names))}")
    prefill, decode = weights_of(functions["prefill"]), weights_of(functions["decode"])
    require(len({name for name, _ in decode}) == 1, path, "has not one file of weights")
    require(prefill <= decode, path, "stores weights of its two functions apart")
    for description in specification.description.functions:
        check_description(path, description)
        check_function(path, functions[description.name], lowered, package)
        states = {state.name for state in description.state}
        require(states == expected_states(lowered, package), path, "does not describe its states")  # coremltools#2275


def shape_of(tensor: MIL_pb2.TensorType) -> tuple[int, ...]:
    """A tensor's shape; all its sizes must be fixed."""
    sizes = sizes_of(tensor)
    if None in sizes:
        raise BackendError("the program has a value whose shape is not fixed")
    return tuple(size for size in sizes if size is not None)


def require(holds: bool, path: Path, complaint: str) -> None:
    """Raise BackendError unless a rule holds."""
    if not holds:
        raise BackendError(f"the package {path} {complaint}; this is a bug in chatapp: report it")


def expected_states(lowered: Lowered, package: Package) -> set[str]:
    """The names of a package's states."""
    if package.policy == "io":
        return set()
    return {f"{kind}_{i}" for i in range(len(lowered.decoder.layers)) for kind in KINDS}


def weights_of(function: MIL_pb2.Function) -> set[tuple[str, int]]:
    """File and offset of every constant that is stored outside the program."""
    blobs = set()
    for operation in operations_of(function):
        for value in operation.attributes.values():
            if value.WhichOneof("value") == "blobFileValue":
                blobs.add((value.blobFileValue.fileName, value.blobFileValue.offset))
    return blobs


def operations_of(function: MIL_pb2.Function) -> list[MIL_pb2.Operation]:
    """The operations of a function."""
    return list(function.block_specializations[function.opset].operations)


def check_description(path: Path, description: Model_pb2.FunctionDescription) -> None:
    """Check that inputs, outputs and states have fixed shapes, and types that every device has."""
    for feature in [*description.input, *description.output]:
        array = feature.type.multiArrayType
        require(array.WhichOneof("ShapeFlexibility") is None, path, f"has a flexible shape: {feature.name}")
        wanted = INT32 if feature.name == "start" else FLOAT16
        require(array.dataType == wanted, path, f"has an input or output that is not float16: {feature.name}")
    for state in description.state:
        require(
            state.type.stateType.arrayType.dataType == FLOAT16, path, f"has a state that is not float16: {state.name}"
        )


def check_function(path: Path, function: MIL_pb2.Function, lowered: Lowered, package: Package) -> None:
    """Check that operations are known and keep the layout, and that states are written once and not returned."""
    operations = operations_of(function)
    require(function.opset == "CoreML8", path, f"is written for {function.opset}")
    written = []
    for operation in operations:
        kind = operation.type
        known = kind in OPERATIONS or kind in ("const", "read_state", "write_state")
        require(known, path, f"has the operation {kind}")
        require(kind != ("linear" if package.layout == "channels" else "conv"), path, f"has {kind} in this layout")
        if kind == "write_state":
            written.append(operation.inputs["input"].arguments[0].name)
            data = operation.inputs["data"].arguments[0].name
            block = function.block_specializations[function.opset]
            require(data not in block.outputs, path, f"returns what a state gets: {data}")  # coremltools#2713
        if kind == "const" or kind.startswith("constexpr_"):
            continue
        for output in operation.outputs:
            shape = shape_of(output.type.tensorType)
            require(output.type.tensorType.dataType in FLOWING, path, f"has a value of a wide type: {output.name}")
            require(len(shape) <= 4, path, f"has a value of more than four axes: {output.name}")
    wanted = sorted(expected_states(lowered, package))
    require(sorted(written) == wanted, path, f"writes the states {sorted(written)}, not {wanted}")
    shapes = {
        shape_of(value.type.stateType.wrappedType.tensorType)
        for value in function.inputs
        if value.type.WhichOneof("type") == "stateType"
    }
    _, *sizes = stacked_shape(lowered.decoder.layers, lowered.capacity)
    require(shapes <= {(1, *sizes)}, path, f"has states of the shapes {shapes}")
