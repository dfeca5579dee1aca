"""Files as torch.save writes them, without torch."""

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from model_store.checkpoint.torch_file import STORAGES


class Global:
    """Stands for a name that torch would import."""

    def __init__(self, module: str, name: str):
        self.module, self.name = module, name


class Call:
    """Stands for an object that a function of torch makes."""

    def __init__(self, function: Global, *arguments: object):
        self.function, self.arguments = function, arguments


class Built:
    """Stands for an object that is given attributes when it is there."""

    def __init__(self, made: object, attributes: object):
        self.made, self.attributes = made, attributes


class Storage:
    """Stands for the numbers of a tensor."""

    def __init__(self, key: str, kind: str, count: int):
        self.key, self.kind, self.count = key, kind, count


InPython: Any = vars(pickle)["_Pickler"]


class Pickler(InPython):  # type: ignore[misc]  # mypy knows only the pickler in C, which cannot be taught
    """Writes what torch writes."""

    def persistent_id(self, value: object) -> object:
        if isinstance(value, Storage):
            return ("storage", Global("torch", value.kind), value.key, "cpu", value.count)
        return None

    def save(self, value: object, save_persistent_id: bool = True) -> None:
        if isinstance(value, Global):
            self.write(b"c" + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Call):
            self.save(value.function)
            self.save(value.arguments)
            self.write(pickle.REDUCE)
        elif isinstance(value, Built):
            self.save(value.made)
            self.save(value.attributes)
            self.write(pickle.BUILD)
        else:
            super().save(value, save_persistent_id)


REBUILD = Global("torch._utils", "_rebuild_tensor_v2")


KINDS = {dtype: kind for kind, dtype in STORAGES.items()}


def tensor(key: str, values: np.ndarray, **changed: object) -> Call:
    """A tensor as torch pickles it."""
    strides = tuple(stride // values.itemsize for stride in values.strides)
    parts: dict[str, object] = {"offset": 0, "shape": values.shape, "strides": strides, **changed}
    storage = Storage(key, KINDS[values.dtype], values.size)
    return Call(REBUILD, storage, parts["offset"], parts["shape"], parts["strides"], False, OrderedDict())


def write(path: Path, state: object, storages: dict[str, np.ndarray], how: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive as torch.save does."""
    pickled = io.BytesIO()
    Pickler(pickled, 2).dump(state)
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", b"little")
        for key, values in storages.items():
            archive.writestr(f"archive/data/{key}", values.tobytes())
    return path


VALUES = np.arange(12, dtype=np.float32)
