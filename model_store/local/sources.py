"""A user's own models: checkpoint folders, GGUF files and exported graphs, linked or copied."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from backends import Progress
from model_store import prebuilt
from model_store.checkpoint.links import LINK
from model_store.errors import StoreError, UnsupportedCheckpoint
from model_store.files import open_file, refuse_pointer, stays
from model_store.local.other_apps import Places, hub_snapshot, of_another_app, repository_of, snapshot_of
from model_store.models import StoredModel
from model_store.prebuilt import PACKAGE, graph_files

MAGIC = b"GGUF"
COPIED = (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja", ".md")
"""Endings of files that are copied."""
PIECE = 1 << 24
"""Bytes copied between two reports of progress."""


@dataclass(frozen=True)
class Source:
    """A checkpoint folder, a GGUF file or an exported graph, and a name for it."""

    path: Path
    name: str = ""

    @property
    def is_checkpoint(self) -> bool:
        """Whether it is a checkpoint folder, which runs in place."""
        return self.path.is_dir() and self.path.suffix != PACKAGE

    @property
    def is_export(self) -> bool:
        """Whether it is a graph exported by other programs."""
        return self.path.suffix in prebuilt.BACKENDS

    @property
    def files(self) -> list[Path]:
        """The files that are copied."""
        if self.is_checkpoint:
            return checkpoint_files(self.path)
        return graph_files(self.path) if self.is_export else [self.path]

    def describe(self) -> StoredModel:
        """The model in a checkpoint folder."""
        from model_store.convert import describe

        return describe(self.path)

    def write_link(self, folder: Path) -> StoredModel:
        """Write what a linked model needs in addition to its weights, and check that it runs."""
        if self.is_export:
            prebuilt.write_files(self.path, folder)
        else:
            from model_store import gguf

            gguf.write_files(self.path, folder)
        return Source(folder).describe()

    def write_copy(self, folder: Path, total: int, on_progress: Progress) -> None:
        """Copy the file, the graph, or the checkpoint folder's files to `folder`."""
        single = not self.is_checkpoint and not self.is_export
        above = self.path if self.is_checkpoint else self.path.parent
        done = 0
        for path in self.files:
            target = folder / ("model.gguf" if single else path.relative_to(above))
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_copied(path) as read, target.open("xb") as written:
                while piece := read.read(PIECE):
                    written.write(piece)
                    done += len(piece)
                    on_progress("copying", min(1.0, done / max(1, total)))
        if self.is_export:
            prebuilt.copy_small(self.path, folder)
        if not self.is_checkpoint:
            Source(folder / ("model.gguf" if single else self.path.name)).write_link(folder)


def find(given: str, places: Places | None) -> Source | None:
    """Find the model that a user means: a path, `org/repo` in the Hub's cache, or another application's.

    Raises UnsupportedCheckpoint if it is there but cannot be used.
    """
    if places and (found := of_another_app(given, places)):
        return source_at(found[0], found[1])
    path = Path(os.path.expanduser(given))
    if given and path.exists():  # "" would be the current folder
        if (cached := path.resolve()).name.startswith("models--") and (cached / "snapshots").is_dir():
            return source_at(snapshot_of(cached), repository_of(cached).rpartition("/")[2])
        # A link's own name is kept: in the Hub's cache it leads to a file named after its content.
        return source_at(path.resolve() if path.is_dir() else path.absolute())
    if places and (snapshot := hub_snapshot(given, places.hub_cache)):
        return source_at(snapshot, given.rpartition("/")[2])
    return None


def source_at(path: Path, name: str = "") -> Source:
    """The model at `path`; an export is named after its folder, as most have the same file names."""
    found = weights_at(path)
    return Source(found, name or (prebuilt.publisher(found).name if found.suffix in prebuilt.BACKENDS else ""))


def weights_at(path: Path) -> Path:
    """The checkpoint folder, the GGUF file or the exported graph at `path`; a folder may hold one of these."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(4) == MAGIC:
                return path
        if graph := prebuilt.find_export(path):
            return graph
        refuse_pointer(path)
        wanted = f"the folder {path.parent}" if path.suffix in (".safetensors", ".bin", ".json") else "the path of one"
        raise UnsupportedCheckpoint(f"{path} is neither a GGUF file nor a checkpoint folder; give {wanted}")
    if not path.is_dir():  # reading it might never end
        raise UnsupportedCheckpoint(f"{path} is a device or a pipe; save the model as a file first")
    if (path / "config.json").exists() and (list(path.glob("*.safetensors")) or list(path.glob("pytorch_model*.bin*"))):
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(file.name for file in files)
        raise UnsupportedCheckpoint(f"{path} contains several GGUF files; give the path of one: {names}")
    return prebuilt.find_export(path) or path


def checkpoint_files(folder: Path) -> list[Path]:
    """The files of a checkpoint folder that are copied."""
    found = [*folder.iterdir(), *folder.glob("additional_chat_templates/*.jinja")]
    files = sorted(path for path in found if path.suffix in COPIED and path.is_file() and path.name != LINK)
    files = [path for path in files if path.suffix != ".md" or stays(path)]
    if away := next((path for path in files if not stays(path)), None):
        raise StoreError(f"{away} is a link to {away.resolve()}, outside the model; put the file there to copy it")
    return files


def open_copied(path: Path) -> BinaryIO:
    """Open a file to copy."""
    try:
        return open_file(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; check the file") from error
