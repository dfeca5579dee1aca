"""Cached states of conversations on disk: one private file each, checked before use."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.text.files import replacing

if TYPE_CHECKING:  # the history only deletes states, and needs no arrays
    from backends import Placement
    from chatapp.generation.prompt_cache import Prefix

FORMAT = 1
"""Raised with every change of the file format."""
MOST = 1 << 30
"""Most bytes of all states; the least recently used are deleted."""
STATES = "states"
"""The folder of states in a user's home."""
ENDING = ".state"
HEADER = 1 << 20
"""Most bytes of a file's first line."""


class States:
    """The states of a user's conversations."""

    def __init__(self, folder: Path, most: int = MOST):
        self.folder, self.most = folder, most

    def write(self, name: str, prefix: "Prefix", facts: Mapping[str, str]) -> None:
        """Save a conversation's cached state, unless it would take half of the room.

        `facts` say what computed it; only the same can use it.
        """
        if prefix.size > self.most // 2 or any(values.dtype.kind not in "fiu" for values in prefix.found.values()):
            return
        arrays = {key: memoryview(values.tobytes()) for key, values in prefix.found.items()}
        digest = hashlib.sha256()
        for data in arrays.values():
            digest.update(data)
        shapes = {key: [values.dtype.str, list(values.shape)] for key, values in prefix.found.items()}
        header = {"format": FORMAT, "facts": dict(facts), "tokens": prefix.tokens, "arrays": shapes}
        line = json.dumps(header | {"digest": digest.hexdigest()}).encode()
        line = json.dumps([hashlib.sha256(line).hexdigest(), line.decode()]).encode() + b"\n"
        if len(line) > HEADER:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(self.folder / (name + ENDING), 0o600) as file:
            file.write(line)
            for data in arrays.values():
                file.write(data)
        self._make_room()

    def read(self, name: str, placement: "Placement", facts: Mapping[str, str]) -> "Prefix | None":
        """Read a conversation's cached state; a file that is damaged or does not match `facts` is deleted."""
        path = self.folder / (name + ENDING)
        try:
            found = read_state(path, placement, facts)
            os.utime(path)
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return None

    def _make_room(self) -> None:
        """Delete the least recently used states until the rest fit."""
        found = ((path, path.stat()) for path in self.folder.glob("*" + ENDING))
        files = sorted(found, key=lambda one: one[1].st_mtime)
        held = sum(stat.st_size for _, stat in files)
        for path, stat in files:
            if held > self.most:
                path.unlink(missing_ok=True)
                held -= stat.st_size


def read_state(path: Path, placement: "Placement", facts: Mapping[str, str]) -> "Prefix":
    """Read a state; ValueError and others if the file is not one, or does not match `facts`."""
    import numpy as np

    from chatapp.generation.prompt_cache import Prefix

    with path.open("rb") as file:
        seal, line = json.loads(file.readline(HEADER))
        header = json.loads(line)
        if hashlib.sha256(line.encode()).hexdigest() != seal or header["format"] != FORMAT or header["facts"] != facts:
            raise ValueError("of something else")
        data = np.fromfile(file, np.uint8)
    if hashlib.sha256(data.data).hexdigest() != header["digest"]:
        raise ValueError("damaged")
    found, start = {}, 0
    for key, (kind, shape) in header["arrays"].items():
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        found[key] = data[start : start + size].view(kind).reshape(shape)
        start += size
    return Prefix(list(header["tokens"]), found, placement)


def forget(folder: Path, names: Iterable[str]) -> None:
    """Delete the states of conversations."""
    for name in names:
        with suppress(OSError):
            (folder / (name + ENDING)).unlink(missing_ok=True)
