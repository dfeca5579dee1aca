"""`import`: bring a model that is on this machine into the store, by a link or a copy."""

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from backends import Progress
from model_store.checkpoint.links import fingerprint, origin
from model_store.disk import existing
from model_store.errors import StoreError, UnsupportedCheckpoint
from model_store.hub import pulled
from model_store.hub.catalog import tell_pull
from model_store.local.sources import Source, find
from model_store.location import Location
from model_store.models import StoredModel, check_new_name
from model_store.store import Store


@dataclass(frozen=True)
class Plan:
    """What an import would do."""

    kind: str
    """A checkpoint folder, a GGUF file or an export."""
    source: Path
    copied: int
    """Bytes to copy; 0 for a link."""
    free: int
    """Bytes free on the store's disk."""
    model: StoredModel
    """The model as it will be, with its name."""


def plan(store: Store, given: str, *, name: str | None = None, copy: bool = False) -> Plan:
    """Plan an import; nothing is written."""
    source = find(given, store.places)
    if source is None:
        hint = tell_pull(given) or "check the path"
        raise UnsupportedCheckpoint(
            f"no file or folder {given!r}, and no such repository in the Hugging Face cache; {hint}"
        )
    path = source.path
    if name is not None:
        check_new_name(name)
    chosen = name or (None if copy else next(iter(store.names_of(path)), None)) or store.name_for(path, source.name)
    refuse_taken(store, chosen, path)
    if source.is_checkpoint:
        model, kind = source.describe(), "checkpoint folder"
    else:
        with TemporaryDirectory() as folder:
            model = source.write_link(Path(folder))
        kind = f"export for {model.export}" if model.export else "GGUF file"
    size = sum(file.stat().st_size for file in source.files) if copy else 0
    free = shutil.disk_usage(existing(store.root)).free
    return Plan(kind, path, size, free, replace(model, name=chosen, folder=store.location(chosen).imported))


def refuse_taken(store: Store, name: str, path: Path) -> None:
    """Raise for the name of another model than the one at `path`, or another snapshot of its repository."""
    known, stopped = store.registered(name), store.location(name).imported
    taken = any(pulled.is_here(Location(root, name)) for root in store.roots)
    if known or stopped.is_dir():  # a folder alone: a copy that was stopped at its end
        other = origin(known.folder if known else stopped) != path
        taken = taken or (other and name not in store.names_of(path))
    if taken:
        raise StoreError(f"a model {name!r} already exists; choose another --name, or run: chatapp rm {name}")


def carry_out(store: Store, plan: Plan, on_progress: Progress | None = None) -> StoredModel:
    """Import as planned; raises StoreError if the store cannot be written."""
    name, source, target = plan.model.name, Source(plan.source), store.location(plan.model.name).imported
    if plan.copied > plan.free:
        raise StoreError(
            f"copying {source.path} needs {plan.copied / 1e6:,.0f} MB, and {plan.free / 1e6:,.0f} MB are free in "
            f"{store.root}; free some space, or import without --copy"
        )
    linked = source.is_checkpoint and not plan.copied
    with ExitStack() as until_done:
        with store.naming():  # other processes see the result, or the lock
            held = until_done.enter_context(store.working(name, "importing", on_progress))
            refuse_taken(store, name, source.path)  # another process may have been faster
        if plan.copied:
            store.fill(name, lambda folder: source.write_copy(folder, plan.copied, held.telling(on_progress)))
        elif not linked and not target.exists():
            store.fill(name, source.write_link)
        folder = source.path if linked else target
        if not store.registered(name):
            store.keep(replace(plan.model, folder=folder), fingerprint(folder))
    return store.register(name, folder)
