"""Bring models that are on this machine already into the store: linked where they are, or copied."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from model_store import BUILTIN, Progress, Store, StoredModel, StoreError
from model_store.checkpoint.fingerprints import fingerprint
from model_store.checkpoint.text_files import open_file, stays
from model_store.errors import UnsupportedCheckpoint
from model_store.hub import pulled
from model_store.hub.file_selection import PACKAGE
from model_store.local import prebuilt
from model_store.local.imported import FOLDER, LINK, linked, origin
from model_store.local.other_apps import Places, hub_snapshot, of_another_app
from model_store.local.prebuilt import graph_files
from model_store.models import check_new_name
from model_store.upkeep.unfinished import unfinished

MAGIC = b"GGUF"
COPIED = (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja", ".md")
"""Ends of the names of those files in a folder that are copied."""
PIECE = 1 << 24
"""Bytes copied between two reports of progress."""


@dataclass(frozen=True)
class Plan:
    """What an import would do."""

    kind: str
    """What was found: a checkpoint folder, a GGUF file or an export."""
    source: Path
    copied: int
    """Bytes that are to be copied; 0 for a link."""
    free: int
    """Bytes that are free in the store."""
    model: StoredModel
    """As it will be, under the name it will have."""


@dataclass(frozen=True)
class Source:
    """A checkpoint folder, a GGUF file or an exported graph, and a name for it."""

    path: Path
    name: str = ""


def find(given: str, places: Places | None) -> Source | None:
    """The model that a user means: a path, `org/repo` in the cache of the Hub, or one of another application.

    Raises UnsupportedCheckpoint when it is there and cannot be used.
    """
    if places and (found := of_another_app(given, places)):
        return source_at(found[0], found[1])
    path = Path(given).expanduser()
    if path.exists():
        # A link to a file keeps its name: in the cache of the Hub it leads to one that is called after its content.
        return source_at(path.resolve() if path.is_dir() else path.absolute())
    if places and (snapshot := hub_snapshot(given, places.hub_cache)):
        return source_at(snapshot, given.rpartition("/")[2])
    return None


def source_at(path: Path, name: str = "") -> Source:
    """What is at `path`; an export is called after its folder, for most have the same file names."""
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
        beside = f" (give the folder {path.parent})" if path.suffix in (".safetensors", ".bin", ".json") else ""
        raise UnsupportedCheckpoint(f"{path} is no GGUF file, and no folder of a checkpoint{beside}")
    if (path / "config.json").exists() and (list(path.glob("*.safetensors")) or list(path.glob("pytorch_model*.bin*"))):
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(file.name for file in files)
        raise UnsupportedCheckpoint(f"{path} holds several GGUF files; give the path of one of them: {names}")
    return prebuilt.find_export(path) or path


def is_checkpoint(path: Path) -> bool:
    """Whether what is imported from `path` is a folder that runs where it is."""
    return path.is_dir() and path.suffix != PACKAGE


def adopt(store: Store, source: Source) -> StoredModel:
    """The model at `source`, linked where it is."""
    path = source.path
    name = known_as(store, path) or store.name_for(path, source.name)
    if is_checkpoint(path):
        return store.register(name, path)
    if not store.known(name):
        make(store, name, lambda folder, tell: write_link(path, folder))
    return store.register(name, store.folder(name) / FOLDER)


def known_as(store: Store, path: Path) -> str | None:
    """The name of the model that is linked to `path`, or to another snapshot of the same repository."""
    for name, root in store.names().items():
        model = None
        with suppress(StoreError):  # another model's manifest is damaged
            model = store.known(name, root)
        if model is None:
            continue
        if origin(model.folder) == path or (path.parent.name == "snapshots" and model.folder.parent == path.parent):
            return name
    return None


def plan(store: Store, given: str, *, name: str | None = None, copy: bool = False) -> Plan:
    """What importing would do; nothing is written to the store."""
    source = find(given, store.places)
    if source is None:
        raise UnsupportedCheckpoint(
            f"there is no file and no folder {given!r}, and no such repository in the cache of the Hub; check the path"
        )
    path = source.path
    if name is not None and name != BUILTIN:
        check_new_name(name)
    chosen = name or (None if copy else known_as(store, path)) or store.name_for(path, source.name)
    taken = store.known(chosen) is not None
    if (
        chosen == BUILTIN
        or any(pulled.is_here(root, chosen) for root in store.roots)
        or (name and taken and origin(store.read(name).folder) != path)
    ):
        raise StoreError(f"there is a model called {chosen!r} already; choose another --name, or: chatapp rm {chosen}")
    if is_checkpoint(path):
        model = described(path)
        kind, files = "checkpoint folder", copied_files(path) if copy else []
    else:
        with TemporaryDirectory() as folder:
            model = write_link(path, Path(folder))
        kind, files = ("export for " + model.export, graph_files(path)) if model.export else ("GGUF file", [path])
    size = sum(file.stat().st_size for file in files) if copy else 0
    free = shutil.disk_usage(next(one for one in (store.root, *store.root.parents) if one.exists())).free
    return Plan(kind, path, size, free, replace(model, name=chosen, folder=store.folder(chosen) / FOLDER))


def described(folder: Path) -> StoredModel:
    """What the checkpoint in `folder` is."""
    from model_store.checkpoint.convert import describe

    return describe(folder)


def carry_out(store: Store, found: Plan, on_progress: Progress | None = None) -> StoredModel:
    """Import as planned; raises StoreError where the store cannot be written."""
    model = brought_in(store, found, on_progress)
    if not store.known(model.name):
        store.keep(model, fingerprint(model.folder))  # again, for it says why that cannot be
    return model


def brought_in(store: Store, found: Plan, on_progress: Progress | None) -> StoredModel:
    """What was planned, linked or copied, and registered where that can be written."""
    name, path, target = found.model.name, found.source, store.folder(found.model.name) / FOLDER
    if found.copied > found.free:
        raise StoreError(
            f"copying {path} needs {found.copied / 1e6:,.0f} MB, and {found.free / 1e6:,.0f} MB are free in "
            f"{store.root}; free some, or import it without --copy"
        )
    if found.copied:
        make(store, name, lambda folder, tell: write_copy(path, folder, found.copied, tell), on_progress)
    elif is_checkpoint(path):
        return store.register(name, path)
    elif not target.exists():
        make(store, name, lambda folder, tell: write_link(path, folder))
    return store.register(name, target)


def make(
    store: Store, name: str, write: Callable[[Path, Progress], object], on_progress: Progress | None = None
) -> None:
    """Fill the folder of a model with what is imported, whole or not at all."""
    with store.working(name, "importing", on_progress) as held, unfinished(store.folder(name)) as folder:
        write(folder, held.telling(on_progress))
        target = store.folder(name) / FOLDER
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def renew(store: Store, name: str, folder: Path) -> bool:
    """Make the files beside a GGUF file or an export anew, where that has changed; tell whether there are any."""
    path = linked(folder)
    if path and folder == store.folder(name) / FOLDER:
        if path.parent == folder:  # the store's own copy
            write_link(path, folder)
        else:
            make(store, name, lambda fresh, tell: write_link(path, fresh))
    return path is not None


def write_link(path: Path, folder: Path) -> StoredModel:
    """Write the files of a model whose weights stay at `path`, a GGUF file or an export, and make sure that it runs."""
    if path.suffix in prebuilt.BACKENDS:
        prebuilt.write_files(path, folder)
    else:
        from model_store import gguf

        gguf.write_files(path, folder)
    return described(folder)


def copied_files(folder: Path) -> list[Path]:
    """The files of a checkpoint folder that are copied."""
    found = [*folder.iterdir(), *folder.glob("additional_chat_templates/*.jinja")]
    files = sorted(path for path in found if path.suffix in COPIED and path.is_file() and path.name != LINK)
    files = [path for path in files if path.suffix != ".md" or stays(path)]
    if away := next((path for path in files if not stays(path)), None):
        raise StoreError(f"{away} is a link to {away.resolve()}, outside of the model; put the file there to copy it")
    return files


def open_source(path: Path) -> BinaryIO:
    """A file that is copied."""
    try:
        return open_file(path)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}; check the file") from error


def write_copy(source: Path, folder: Path, total: int, on_progress: Progress) -> None:
    """Copy a GGUF file, an export, or the files of a checkpoint folder, to `folder`."""
    graph, base = source.suffix in prebuilt.BACKENDS, source if is_checkpoint(source) else source.parent
    files = copied_files(source) if is_checkpoint(source) else graph_files(source) if graph else [source]
    done = 0
    for path in files:
        target = folder / (path.relative_to(base) if graph or is_checkpoint(source) else "model.gguf")
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_source(path) as read, target.open("xb") as written:
            while piece := read.read(PIECE):
                written.write(piece)
                done += len(piece)
                on_progress("copying", min(1.0, done / max(1, total)))
    if graph:
        prebuilt.copy_small(source, folder)
        write_link(folder / source.name, folder)
    elif source.is_file():
        write_link(folder / "model.gguf", folder)
