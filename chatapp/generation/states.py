"""What caches held of conversations, on the disk: a file each, for its user alone, checked before it is used."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.text.files import replacing

if TYPE_CHECKING:  # the history forgets states, and needs no arrays for it
    from backends import Placement
    from chatapp.generation.prompt_cache import Prefix

FORMAT = 1
"""Counts the changes of what is written."""
MOST = 1 << 30
"""Bytes of all states together; those used least recently give way."""
STATES = "states"
"""The folder of states in a user's home."""
ENDING = ".state"
HEADER = 1 << 20
"""Bytes that the first line of a file has at most."""


class States:
    """The states of a user's conversations."""

    def __init__(self, folder: Path, most: int = MOST):
        self.folder, self.most = folder, most

    def write(self, name: str, prefix: "Prefix", facts: Mapping[str, str]) -> None:
        """Keep what a cache holds of the conversation called `name`; one that would take half of the room is not kept.

        `facts` tell what computed it: nothing else can use it.
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
        """What was kept of the conversation called `name`; a file that is damaged, or of something else, is deleted."""
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
        """Delete the states that were used least recently, until the rest are small enough."""
        found = ((path, path.stat()) for path in self.folder.glob("*" + ENDING))
        files = sorted(found, key=lambda one: one[1].st_mtime)
        held = sum(stat.st_size for _, stat in files)
        for path, stat in files:
            if held > self.most:
                path.unlink(missing_ok=True)
                held -= stat.st_size


def read_state(path: Path, placement: "Placement", facts: Mapping[str, str]) -> "Prefix":
    """The state in a file; ValueError, and others, where it is not one that these facts are true of."""
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
