"""Read and write small files: only regular ones, up to a limit for their kind; written whole or not at all."""

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
"""Largest size in bytes of files of no special kind."""
KINDS = {
    "tokenizer.json": 256 * MEGABYTE,  # the largest published ones have 35
    ".jinja": 4 * MEGABYTE,
    ".md": 4 * MEGABYTE,
    ".toml": 4 * MEGABYTE,
}
"""Largest size in bytes by name, or by the end of the name."""
POINTER = b"version https://git-lfs.github.com/spec/"
"""The beginning of a Git LFS pointer, which a clone without LFS has instead of a large file."""
MANIFEST_LIMIT = 1 << 26
"""Largest size in bytes of the store's own small files."""


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; OSError for devices, pipes and folders, which have no end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_bytes(path: Path) -> bytes:
    """Read a whole file; OSError if it is too large for its kind."""
    most = KINDS.get(path.name) or KINDS.get(path.suffix, LARGEST)
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // MEGABYTE} MB", str(path))
        return file.read(size)


def refuse_pointer(path: Path) -> None:
    """Raise UnsupportedCheckpoint for a Git LFS pointer."""
    with suppress(OSError), open_file(path) as file:
        if file.read(len(POINTER)) == POINTER:
            raise UnsupportedCheckpoint(
                f"{path} is a Git LFS pointer; to download the file, run in {path.parent}: git lfs pull"
            )


def read_text(path: Path, errors: str = "strict") -> str:
    """Read a whole UTF-8 text, with universal newlines."""
    return read_bytes(path).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint."""
    try:
        value = json.loads(read_bytes(path))
    except FileNotFoundError:
        raise UnsupportedCheckpoint(f"{path.parent} has no {path.name}; check that it is a checkpoint folder") from None
    except OSError as error:
        raise UnsupportedCheckpoint(f"cannot read {path}: {error.strerror}; check the file") from error
    except (ValueError, RecursionError) as error:
        refuse_pointer(path)
        raise UnsupportedCheckpoint(f"{path} is not valid JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{path} is not a JSON object; download it again")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint; {} if there is no such file."""
    return read_json(path) if path.is_file() else {}


def stays(path: Path) -> bool:
    """Whether a file really is in its folder: no link leads elsewhere, but to the blobs of the Hub's cache."""
    target, folder = path.resolve(), path.parent.resolve()
    snapshots = next((above for above in (folder, *folder.parents) if above.name == "snapshots"), None)
    return folder in target.parents or (snapshots is not None and target.parent == snapshots.parent / "blobs")


def read_manifest(path: Path | str) -> dict[str, Any]:
    """Read a JSON object from one of the store's own files."""
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
        error.filename = str(path)  # the error of a full disk names no file
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
