"""What is deployed: a model's files by digest, and its placement."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from backends import Placement
from chatapp import __version__
from chatapp.placement.opening import rank_wanted
from chatapp.placement.selection import PlacementOptions
from chatapp.text.errors import InputError
from model_store import Store, StoredModel, is_name
from model_store.checkpoint import links
from model_store.local.sources import checkpoint_files

PIECE = 4 << 20
"""Bytes read at a time."""


@dataclass(frozen=True)
class File:
    """A file of a checkpoint."""

    path: str
    """Relative to the checkpoint's folder, with slashes."""
    size: int
    digest: str
    """SHA-256."""


@dataclass(frozen=True)
class Version:
    """A model as deployed: on identical processors, the same seed gives the same text."""

    name: str
    """The model's name for clients."""
    files: tuple[File, ...]
    placement: Placement
    made_by: str = __version__
    """The version of chatapp, which must be the same on all nodes."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything but the name."""
        facts = {**asdict(self), "name": ""}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def stored(self) -> str:
        """The model's name in the nodes' stores."""
        return f"{self.name}-{self.digest[:12]}"

    @property
    def application(self) -> str:
        """The name of the Ray Serve application."""
        return f"chatapp-{self.stored}"


def describe_version(store: Store, model: StoredModel, options: PlacementOptions, name: str = "") -> Version:
    """The version that a local model makes under this name; InputError if it cannot be deployed."""
    if model.export or links.linked(model.folder):
        raise InputError(
            f"{model.name} is a single file or an export, which cannot be deployed; pull or import its checkpoint"
        )
    if name and not is_name(name):
        raise InputError(f"{name!r} is not a model name: no path and no leading dot; choose another --name")
    placement = rank_wanted(store, model, options, lambda reason: None)[0]
    files = [describe_file(model.folder, path) for path in checkpoint_files(model.folder)]
    return Version(name or model.name, tuple(files), placement)


def describe_file(folder: Path, path: Path) -> File:
    """A file of a checkpoint with its digest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return File(path.relative_to(folder).as_posix(), path.stat().st_size, digest)
