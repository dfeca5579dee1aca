"""The program of a saved package, as it was written: its specification, and the shapes of its values."""

from pathlib import Path

from backends import BackendError
from backends.coreml.tools import MIL_pb2, Model_pb2

DATA = Path("Data/com.apple.CoreML")


def program_of(package: Path) -> tuple[Model_pb2.Model, Path]:
    """A package's specification, and the folder that the names of weight files begin at."""
    specification = Model_pb2.Model()
    try:
        specification.ParseFromString((package / DATA / "model.mlmodel").read_bytes())
    except Exception as error:  # protobuf's own errors have changed their name
        raise BackendError(f"{package} cannot be read ({error}); lower the model anew") from error
    return specification, package / DATA


def sizes_of(tensor: MIL_pb2.TensorType) -> tuple[int | None, ...]:
    """A tensor's shape, None for what varies."""
    return tuple(one.constant.size if one.WhichOneof("dimension") == "constant" else None for one in tensor.dimensions)


def shape_of(tensor: MIL_pb2.TensorType) -> tuple[int, ...]:
    """A tensor's shape, all of whose sizes must be fixed."""
    sizes = sizes_of(tensor)
    if None in sizes:
        raise BackendError("the program has a value whose shape is not fixed")
    return tuple(size for size in sizes if size is not None)
