"""The inputs and outputs of a Core ML package from other programs, read from its specification."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal, NoReturn

from backends import BackendError
from backends.coreml.tools import MIL_pb2, Model_pb2

DATA = Path("Data/com.apple.CoreML")
"""The folder in a package for its specification and weights."""
Role = Literal["tokens", "mask", "positions", "wanted"]
ROLES: Mapping[str, Role] = {
    "inputids": "tokens",
    "causalmask": "mask",
    "attentionmask": "mask",
    "positionids": "positions",
    "cacheposition": "positions",
    "position": "positions",
    "currentpos": "positions",
    "outputmask": "wanted",
}
"""The role of an input by its name, without underscores and in lower case."""
AXES: Mapping[Role, tuple[int, ...]] = {"tokens": (2,), "mask": (2, 4), "positions": (1, 2), "wanted": (1,)}
"""The number of axes an input may have; a 2D mask has one row of ones, a 4D mask is added to the scores."""
LOGITS = {"logits", "tokenscores"}
WHOLE_NUMBERS = {Model_pb2.ArrayFeatureType.INT32}
FLOATS = {Model_pb2.ArrayFeatureType.FLOAT16, Model_pb2.ArrayFeatureType.FLOAT32}
ENDLESS = 1 << 30
"""Stands for a size without an upper bound."""

Sizes = tuple[tuple[int, int], ...]
"""The smallest and largest size of each axis."""


@dataclass(frozen=True)
class Array:
    """An input."""

    role: Role
    sizes: Sizes
    whole_numbers: bool

    @property
    def last(self) -> tuple[int, int]:
        """The smallest and largest size of the last axis."""
        return self.sizes[-1]

    @property
    def fixed(self) -> bool:
        """Whether the last axis has a fixed size."""
        return self.last[0] == self.last[1]


@dataclass(frozen=True)
class Contract:
    """How a decoder is called: one row, some tokens per call, or the whole text where there are no states."""

    inputs: Mapping[str, Array]
    states: tuple[str, ...]
    """The states with keys and values; none if the whole text is read for every token."""
    logits: str
    vocab_size: int
    every: bool
    """Whether all tokens of a call have logits; otherwise the last one, or the one that `wanted` selects."""
    shortest: int
    longest: int
    """The most tokens per call."""
    capacity: int
    """The most tokens of a text."""
    parameters: int


def read(package: Path) -> Contract:
    """Read a package's contract; raises BackendError that says what is missing or not understood."""
    specification = specification_of(package)
    described = specification.description
    functions = specification.mlProgram.functions
    if specification.WhichOneof("Type") != "mlProgram" or len(functions) != 1:
        found = f"the functions {', '.join(sorted(functions))}" if functions else "no program"
        refuse(package, f"has {found}, where one function of a program is known here")
    inputs = {one.name: array(package, one) for one in described.input}
    states = {one.name: tuple(one.type.stateType.arrayType.shape) for one in described.state}
    (function,) = functions.values()
    operations = list(function.block_specializations[function.opset].operations)
    logits, shape = find_logits(package, [one.name for one in described.output], operations)

    given = {one.role: one for one in inputs.values()}
    if "tokens" not in given:
        refuse(package, f"has no input input_ids, but {listed(inputs) or 'none'}: it is not a whole decoder")
    shortest, longest = counts(package, given["tokens"], inputs)
    every = shape[1] != 1 or longest == 1
    if shape[1] not in (None, 1, longest if shortest == longest else None):
        refuse(package, f"has logits of {shape[1]} tokens for {listed(inputs)}")
    if not every and shortest > 1 and "wanted" not in given:
        refuse(package, f"takes {shortest} tokens at once and has logits of the last one only, which may be padding")
    if states and "wanted" in given:
        refuse(package, "has states and the input output_mask, which is unknown here together")
    masked = [one.last[1] for one in inputs.values() if one.role == "mask"]
    capacity = min([room(package, states, inputs) if states else longest, *masked])
    return Contract(
        inputs=inputs,
        states=tuple(states),
        logits=logits,
        vocab_size=shape[-1] or 0,
        every=every,
        shortest=shortest,
        longest=longest,
        capacity=capacity - shortest + 1 if states else capacity,  # the states must hold padding too
        parameters=parameters(operations),
    )


def refuse(package: Path, why: str) -> NoReturn:
    """Raise BackendError for a package, saying why."""
    raise BackendError(f"{package} {why}; import the checkpoint that it was made of")


def specification_of(package: Path) -> Model_pb2.Model:
    """Read a package's specification; its weights are in another file."""
    found, path = Model_pb2.Model(), package / DATA / "model.mlmodel"
    try:
        found.ParseFromString(path.read_bytes())
    except FileNotFoundError as error:
        raise BackendError(f"{path} is missing; download the whole package") from error
    except Exception as error:  # the names of protobuf's errors have changed
        raise BackendError(f"{path} cannot be read ({error}); download it again") from error
    return found


def sizes_of(tensor: MIL_pb2.TensorType) -> tuple[int | None, ...]:
    """A tensor's shape, with None for sizes that vary."""
    return tuple(one.constant.size if one.WhichOneof("dimension") == "constant" else None for one in tensor.dimensions)


def array(package: Path, feature: Model_pb2.FeatureDescription) -> Array:
    """Read an input; its name must tell its role."""
    name, kind = feature.name, feature.type.multiArrayType
    if (role := ROLES.get(plain(name))) is None:
        refuse(package, f"needs the input {name}, which is unknown here")
    flexible = kind.WhichOneof("ShapeFlexibility")
    if flexible == "enumeratedShapes":
        refuse(package, f"takes the input {name} in a few sizes only, which is not known here")
    if flexible:
        sizes = tuple(
            (max(1, one.lowerBound), one.upperBound if one.upperBound > 0 else ENDLESS)
            for one in kind.shapeRange.sizeRanges
        )
    else:
        sizes = tuple((size, size) for size in kind.shape)
    axes, one = len(sizes), all(low == 1 for low, _ in sizes[: -2 if len(sizes) == 4 else -1])
    known = axes in AXES[role] and one and all(0 < low <= high for low, high in sizes)
    types = FLOATS if axes == 4 else WHOLE_NUMBERS if role == "tokens" else FLOATS | WHOLE_NUMBERS
    if not known or kind.dataType not in types:
        number = Model_pb2.ArrayFeatureType.ArrayDataType.Name(kind.dataType).lower()
        refuse(package, f"has the input {name} of {number} {shown(sizes)}, which is not known here")
    return Array(role, sizes, kind.dataType in WHOLE_NUMBERS)


def plain(name: str) -> str:
    """A name without what exporters write differently."""
    return name.replace("_", "").lower()


def shown(sizes: Sizes) -> str:
    """A shape, for messages: (1, 1 to 64)."""
    spans = [str(low) if low == high else f"{low} to {high if high < ENDLESS else 'any'}" for low, high in sizes]
    return f"({', '.join(spans)})"


def listed(inputs: Mapping[str, Array]) -> str:
    """Inputs, for messages."""
    return ", ".join(f"{name} {shown(one.sizes)}" for name, one in inputs.items())


def find_logits(
    package: Path, outputs: Iterable[str], operations: list[MIL_pb2.Operation]
) -> tuple[str, tuple[int | None, ...]]:
    """The output with logits, and its shape, None for sizes that vary; the program has it if the output does not."""
    named = [name for name in outputs if plain(name) in LOGITS]
    if len(named) != 1:
        refuse(package, f"has no output logits, but {', '.join(outputs) or 'none'}: it is not a whole decoder")
    types = [value.type.tensorType for one in operations for value in one.outputs if value.name == named[0]]
    shape = sizes_of(types[-1]) if types else ()
    if len(shape) == 2:  # of a single token
        shape = shape[0], 1, shape[1]
    if len(shape) != 3 or shape[0] not in (1, None) or not shape[2]:
        refuse(package, f"does not state the size of its vocabulary: its logits have the shape {shape}")
    return named[0], shape


def counts(package: Path, tokens: Array, inputs: Mapping[str, Array]) -> tuple[int, int]:
    """The smallest and largest number of tokens per call; 1 if the mask has a single row."""
    shortest, longest = tokens.last
    longest = min([longest, *(one.sizes[2][1] for one in inputs.values() if len(one.sizes) == 4)])
    for one in inputs.values():
        least = one.sizes[2][0] if len(one.sizes) == 4 else one.last[0] if one.role == "positions" else 1
        known = one.role != "positions" or one.last == (1, 1) or one.last[1] >= longest
        if least > shortest or shortest > longest or not known or (not one.fixed and one.last[0] > shortest):
            refuse(package, f"has inputs whose sizes do not go together: {listed(inputs)}")
    return shortest, longest


def room(package: Path, states: Mapping[str, tuple[int, ...]], inputs: Mapping[str, Array]) -> int:
    """Tokens that the states (..., tokens, head) have room for, with padding; raises if no input tells positions."""
    sizes = {shape[-2] if len(shape) in (4, 5) and min(shape) > 0 else 0 for shape in states.values()}
    if len(sizes) != 1 or 0 in sizes:
        described = ", ".join(f"{name} {shape}" for name, shape in states.items())
        refuse(package, f"has states that are not keys and values of one length: {described}")
    if not any(one.role == "positions" or (one.role == "mask" and not one.fixed) for one in inputs.values()):
        refuse(package, f"has no mask of the text's length and no position_ids, but {listed(inputs)}")
    return sizes.pop()


def parameters(operations: Iterable[MIL_pb2.Operation]) -> int:
    """Count the weights: constants in files, and what decompresses to constants."""
    sizes: dict[str, int] = {}
    for one in operations:
        in_file = one.type == "const" and one.attributes["val"].WhichOneof("value") == "blobFileValue"
        if in_file or one.type.startswith("constexpr_"):
            stored_for_it = (binding.name for argument in one.inputs.values() for binding in argument.arguments)
            sizes |= dict.fromkeys(stored_for_it, 0)
            sizes |= {value.name: prod(size or 0 for size in sizes_of(value.type.tensorType)) for value in one.outputs}
    return sum(sizes.values())
