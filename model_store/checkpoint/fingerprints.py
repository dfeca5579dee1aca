"""Whether a checkpoint has changed."""

import hashlib
import os
from pathlib import Path

from model_store.checkpoint.text_files import open_file
from model_store.local import imported


def fingerprint(folder: Path) -> str:
    """What changes when the checkpoint in `folder` does: names, sizes, times, and the last bytes of each file.

    The bytes are for archives that give every file the same time.
    """
    digest = hashlib.sha256(str(folder).encode())
    elsewhere = imported.linked_files(folder)
    for path in sorted([*folder.iterdir(), *folder.glob("additional_chat_templates/*"), *elsewhere]):
        if path.suffix in (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja") or path in elsewhere:
            with open_file(path) as file:
                status = os.fstat(file.fileno())
                file.seek(max(0, status.st_size - 4096))
                digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode() + file.read())
    return digest.hexdigest()
