"""Write a file whole or not at all."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Put `text` in the place of what `path` held; a failure on the way leaves that as it was.

    A link, perhaps into a folder of dotfiles, stays one, and a file stays as private as it was.
    """
    path = Path(os.path.realpath(path))
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            if path.exists():
                shutil.copymode(path, temporary)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
