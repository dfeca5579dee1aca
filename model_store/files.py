"""Small files: read whole, only regular ones and only as much as their kind can need; written whole or not at all."""

import errno
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO

from model_store.errors import StoreError, UnsupportedCheckpoint

MEGABYTE = 1 << 20
LARGEST = 64 * MEGABYTE
"""Bytes of a file whose name says nothing else."""
KINDS = {
    "tokenizer.json": 256 * MEGABYTE,  # the largest published ones have 35
    ".jinja": 4 * MEGABYTE,
    ".md": 4 * MEGABYTE,
    ".toml": 4 * MEGABYTE,
}
"""Bytes of a file by its name, or by the end of its name."""
POINTER = b"version https://git-lfs.github.com/spec/"
"""How the few lines begin that a clone without Git LFS has in the place of a large file."""
MANIFEST_LIMIT = 1 << 26
"""Bytes of one of the store's own small files."""


def open_file(path: Path) -> BinaryIO:
    """A regular file, opened to be read; OSError where there is a device, a pipe or a folder, none of which ends."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a device, a pipe or a folder, and no file", str(path))
    return os.fdopen(handle, "rb")


def read_bytes(path: Path) -> bytes:
    """All of a file; OSError where it is larger than any of its kind."""
    most = KINDS.get(path.name) or KINDS.get(path.suffix, LARGEST)
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has more than {most // MEGABYTE} MB", str(path))
        return file.read(size)


def refuse_pointer(path: Path) -> None:
    """Raise UnsupportedCheckpoint for a file that Git LFS has not fetched."""
    with suppress(OSError), open_file(path) as file:
        if file.read(len(POINTER)) == POINTER:
            raise UnsupportedCheckpoint(
                f"{path} only says which file is to be there; fetch it with: git lfs pull (in {path.parent})"
            )


def read_text(path: Path, errors: str = "strict") -> str:
    """All of a text in UTF-8, with the ends of lines as Python has them."""
    return read_bytes(path).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint."""
    try:
        value = json.loads(read_bytes(path))
    except FileNotFoundError:
        raise UnsupportedCheckpoint(f"{path.parent} has no {path.name}; is it a checkpoint folder?") from None
    except OSError as error:
        raise UnsupportedCheckpoint(f"cannot read {path}: {error.strerror}; check the file") from error
    except (ValueError, RecursionError) as error:
        refuse_pointer(path)
        raise UnsupportedCheckpoint(f"{path} is not valid JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{path} holds no JSON object; download it again")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint, empty if there is no such file."""
    return read_json(path) if path.is_file() else {}


def stays(path: Path) -> bool:
    """Whether a file is in its folder: no link leads elsewhere, but to the blobs of the Hub's cache."""
    target, folder = path.resolve(), path.parent.resolve()
    snapshots = next((above for above in (folder, *folder.parents) if above.name == "snapshots"), None)
    return folder in target.parents or (snapshots is not None and target.parent == snapshots.parent / "blobs")


def read_manifest(path: Path | str) -> dict[str, Any]:
    """The JSON object in one of the store's own files."""
    try:
        with open(path, "rb", 0) as file:
            content = file.read(1 << 16)
            if len(content) == 1 << 16:
                content += file.read(MANIFEST_LIMIT)
        value = json.loads(content)
    except PermissionError as error:
        raise StoreError(f"{path} cannot be read: permission denied; if the store is shared, ask its owner") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete the folder {Path(path).parent}") from error
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write `path` whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}")
    try:
        temporary.write_text(json.dumps(value, indent=indent) + "\n", "utf-8")
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk does not say what it had no room for
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
