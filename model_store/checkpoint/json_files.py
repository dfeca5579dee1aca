"""Read the JSON files of a checkpoint; nothing heavy is imported for it."""

import json
from pathlib import Path
from typing import Any

from model_store.checkpoint.text_files import read_bytes
from model_store.errors import UnsupportedCheckpoint


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in the file at `path`."""
    try:
        value = json.loads(read_bytes(path))
    except FileNotFoundError:
        raise UnsupportedCheckpoint(f"{path.parent} has no {path.name}; is it a checkpoint folder?") from None
    except OSError as error:
        raise UnsupportedCheckpoint(f"cannot read {path}: {error.strerror}; check the file") from error
    except (ValueError, RecursionError) as error:
        raise UnsupportedCheckpoint(f"{path} is not valid JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise UnsupportedCheckpoint(f"{path} holds no JSON object; download it again")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of the checkpoint, empty if there is no such file."""
    return read_json(path) if path.is_file() else {}
