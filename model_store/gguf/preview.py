"""A GGUF file before it is downloaded: what describes the model in it, and a hole where its weights will be."""

import os
from collections.abc import Callable
from math import prod
from pathlib import Path

from model_store.errors import UnsupportedCheckpoint
from model_store.gguf.config import FACTORS, WIDEST
from model_store.gguf.reader import HEADER_LIMIT, Damage, Header, read_header

START = 1 << 23
"""Bytes that are read first: most headers end there."""
Read = Callable[[int, int], bytes]
"""Returns bytes of a file: from which on, and how many."""


def write_preview(path: Path, size: int, read: Read, limit: int = START) -> None:
    """Write to `path` the header of a file of `size` bytes, and the small tensors that belong to its configuration."""
    entries = write_header(path, size, read, limit).entries
    with path.open("r+b") as file:
        for name in FACTORS:
            if name in entries and prod(entries[name].shape) <= WIDEST:
                file.seek(entries[name].start)
                file.write(read(entries[name].start, entries[name].kind.stored(prod(entries[name].shape))))


def write_header(path: Path, size: int, read: Read, limit: int) -> Header:
    """Write the first `limit` bytes, or more if the header is longer; returns it."""
    content = read(0, min(limit, size))
    path.write_bytes(content)
    os.truncate(path, size)
    try:
        return read_header(path)
    except UnsupportedCheckpoint as error:
        # Where it was cut it goes on with zeros, which are no names, and seems damaged.
        if len(content) == min(size, HEADER_LIMIT) or not isinstance(error.__cause__, Damage):
            raise
    return write_header(path, size, read, min(4 * limit, HEADER_LIMIT))
