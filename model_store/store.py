"""The model store: find, lower, keep and remove models."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backends
from backends import Progress
from backends.suggest import suggest
from model_store import runtime_caches, variants
from model_store.checkpoint import links
from model_store.disk import freed_by, own, writing
from model_store.errors import ModelNotFound, StoreError
from model_store.files import read_manifest, write_json
from model_store.local.other_apps import Places
from model_store.location import IMPORTED, MANIFEST, Location
from model_store.locks import Held, Owner, alone, sweep, unfinished, working_on
from model_store.models import BUILTIN, StoredModel, Variant, fault_of, is_name

if TYPE_CHECKING:  # listings must not import these
    from model_store.local.sources import Source

BUILTIN_FOLDER = Path(__file__).parent / "builtin"
REMOVING = "removing"
NAMES = ".names"
"""The name of the lock for giving names, which is no model's name."""


class Store:
    """The models in one or several folders, `NAME/` for each; new ones go to the first.

    A variant is complete when its folder has its final name and as many bytes as were written, and a model when its
    manifest exists; both are first written under another name, so that an interrupted command leaves nothing that looks
    whole. What a killed one leaves is deleted before the next lowering.
    """

    def __init__(self, root: Path, places: Places | None = None, more: Sequence[Path] = ()):
        self.root, self.places, self.roots = root, places, (root, *more)
        self.adopted: list[str] = []
        """The models that were linked since the store was opened."""

    def location(self, name: str) -> Location:
        """The location of a model, or of a new one with this name."""
        if name == BUILTIN or not is_name(name):
            return Location(self.root, name)
        from model_store.hub import pulled  # slow to import, and not needed for the built-in model

        return pulled.locate(self.roots, name)

    def folder(self, name: str) -> Path:
        """The folder of what is made for a model."""
        return self.location(name).folder

    def locations(self) -> dict[str, Location]:
        """The locations of all models but the built-in one, by name."""
        from model_store.hub import pulled

        found: dict[str, Path] = {}
        for root in reversed(self.roots):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root) as entries:
                names = [entry.name for entry in entries if is_name(entry.name) and not entry.is_symlink()]
                parts = (MANIFEST, IMPORTED)
                found |= {
                    name: root for name in names if any(os.path.exists(f"{root}/{name}/{part}") for part in parts)
                }
            found |= dict.fromkeys(pulled.names(root), root)
        found.pop(BUILTIN, None)
        return {name: Location(root, name) for name, root in sorted(found.items())}

    def every_location(self) -> dict[str, Location]:
        """The locations of all models, the built-in one first."""
        return {BUILTIN: self.location(BUILTIN), **self.locations()}

    def survey(self) -> tuple[list[StoredModel], dict[str, str]]:
        """The readable models, and by name what is wrong with others or with their download."""
        from model_store.hub import manifest

        found, broken = [self.get(BUILTIN)], {}
        for name, location in self.locations().items():
            try:
                found.append(self.read(location))
                manifest.read_files(location.checkpoint)
            except (StoreError, OSError, ValueError) as error:  # an unforeseen one must not hide other models
                broken[name] = str(error)
        return found, broken

    def list(self) -> list[StoredModel]:
        """The readable models, the built-in one first; downloads are not looked at."""
        found = [self.get(BUILTIN)]
        for location in self.locations().values():
            with suppress(StoreError, OSError, ValueError):
                found.append(self.read(location))
        return found

    def read(self, location: Location) -> StoredModel:
        """Read the model at a location by its manifest."""
        return read_model(location.folder) if os.path.exists(location.manifest) else self.get(location.name)

    def get(self, name: str) -> StoredModel:
        """The model `name`: a name, a path, or a Hub repository that was pulled or is in the Hub's cache."""
        try:
            return self.look_up(name)
        except StoreError as error:
            if busy := self.unready(name):
                raise ModelNotFound(busy) from error
            raise

    def unready(self, name: str) -> str:
        """Why a model is missing: another process works on it, or it is only partly downloaded."""
        from model_store.hub import manifest, pulled

        begun = (pulled.find(root, name, unfinished=True) for root in self.roots)
        location = self.location(next(filter(None, begun), name))
        if not is_name(location.name):
            return ""
        owner = working_on(location)
        if owner and owner.what == REMOVING:  # it is half deleted
            return f"{name} is being removed by {owner}"
        if not pulled.is_begun(location) or pulled.is_here(location):
            return ""
        how = f"is being pulled by {owner}; to wait for it" if owner else "is partly downloaded; to continue"
        return f"{name} {how}: chatapp pull {manifest.read_reference(location.partial)}"

    def look_up(self, name: str) -> StoredModel:
        """What `get` returns, without saying that another process is at work on the model."""
        if name == BUILTIN:
            return self.register(BUILTIN, BUILTIN_FOLDER)
        from model_store.hub import pulled
        from model_store.hub.catalog import catalog, tell_pull
        from model_store.local import sources

        for location in (Location(root, name) for root in self.roots):
            if pulled.is_here(location):
                return self.register(name, location.checkpoint)
        if is_name(name):
            if model := self.registered(name):
                return self.register(name, model.folder, known=True)
            if (copied := self.location(name).imported).is_dir():  # a copy was stopped at its end
                return self.register(name, copied)
        here = (None if os.path.exists(os.path.expanduser(name)) else pulled.find(root, name) for root in self.roots)
        if found := next(filter(None, here), None):
            return self.register(found, self.location(found).checkpoint)
        if source := sources.find(name, self.places):
            return self.adopt(source)
        hint = "models on a server can only run, chat and complete" if "@" in name else tell_pull(name)
        if not hint and (name.endswith(".gguf") or os.path.isabs(name)):
            hint = "check the path"
        hint = hint or suggest(name, [BUILTIN, *self.locations()])
        if not hint and (meant := suggest(name.lower(), catalog(), near=0.8)):
            hint = f"{meant} to download it: chatapp pull"
        hint = hint or "to see your models: chatapp list; to find others: chatapp search"
        raise ModelNotFound(f"no model or folder {name!r}; {hint}")

    def adopt(self, source: "Source") -> StoredModel:
        """Link a user's own model."""
        if names := self.names_of(source.path):
            return self.link(names[0], source)
        with self.naming():
            if not (names := self.names_of(source.path)):  # another process may have been faster
                self.adopted += (names := [self.name_for(source.path, source.name)])
            return self.link(names[0], source)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Context that holds the lock for giving names, if the store can be written."""
        with ExitStack() as held:
            with suppress(OSError):
                held.enter_context(alone(Location(self.root, NAMES), "naming a model", lambda owner: None))
            yield

    def link(self, name: str, source: "Source") -> StoredModel:
        """Link a source as the model `name`."""
        if source.is_checkpoint:
            return self.register(name, source.path)
        if not self.registered(name):
            self.bring_in(name, source.write_link)
        return self.register(name, self.location(name).imported)

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Context in which a model is used; if that fails, models linked for it and not lowered are forgotten."""
        try:
            yield
        except Exception:
            for location in map(self.location, self.adopted):
                with suppress(StoreError):  # another process works on it: keep it
                    if not location.partial.exists() and not read_model(location.folder).variants:
                        self.remove_from(location)
            raise

    def names_of(self, path: Path) -> Sequence[str]:
        """The names of models linked to `path`, or to another snapshot of its repository; the path's own first."""
        found = []
        for name, location in self.locations().items():
            with suppress(StoreError):  # no manifest, or a damaged one
                folder = read_model(location.folder).folder
                beside = path.parent.name == "snapshots" and folder.parent == path.parent
                if beside or links.origin(folder) == path:
                    found.append(name)
        return sorted(found, key=lambda name: name not in (path.name, path.stem))

    def bring_in(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` fill the folder of an imported checkpoint, whole or not at all."""
        with self.working(name, "importing"):
            self.fill(name, write)

    def fill(self, name: str, write: Callable[[Path], object]) -> None:
        """The same, while this process holds the model's lock."""
        with unfinished(self.folder(name)) as folder:
            write(folder)
            target = self.location(name).imported
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)

    def renew(self, name: str, folder: Path) -> bool:
        """Renew the files made for a GGUF file or an export, if that has changed; returns whether it is one."""
        from model_store.local.sources import Source

        path = links.linked(folder)
        if path and folder == self.location(name).imported:
            source = Source(path)
            if path.parent == folder:  # copied into the store
                source.write_link(folder)
            else:
                self.bring_in(name, source.write_link)
        return path is not None

    def lowered(
        self, model: StoredModel, backend: str, precision: str | None = None, on_progress: Progress | None = None
    ) -> Variant:
        """The variant of `model` for `backend`, lowered now if this machine has none."""
        precision = precision or model.precision
        if found := self.find_variant(model, backend, precision):
            return replace(found, seconds=0.0)
        if not model.export:
            from backends import quantize

            quantize.precision(precision)  # raises for unknown ones before anything is written

        start = time.perf_counter()
        with self.working(model.name, f"lowering for {backend}", on_progress) as held:
            if not self.find_variant(model, backend, precision):  # another process may have been faster
                self.lower(model, backend, precision, held.telling(on_progress))
        runtime_caches.trim(self.every_location().values())
        found = self.find_variant(model, backend, precision)
        if not found:
            raise StoreError(f"{model.name} was removed while it was lowered for {backend}; try again")
        return replace(found, seconds=time.perf_counter() - start)

    def lower(self, model: StoredModel, backend: str, precision: str, on_progress: Progress) -> None:
        """Make a variant, replacing one for another version or processor."""
        from model_store.convert import convert

        location = self.location(model.name)
        target = own(location.folder, f"{backend}-{precision}")
        source = str(read_manifest(location.manifest).get("fingerprint")) if location.manifest.exists() else ""
        began = time.perf_counter()
        with unfinished(target.parent) as folder:
            convert(model.folder, folder, backend=backend, precision=precision, on_progress=on_progress)
            seconds, signature = time.perf_counter() - began, backends.get(backend).signature()
            write_json(folder / variants.FACTS, variants.facts(folder, signature, seconds, source))
            with unfinished(target.parent) as old:
                if target.exists():  # of another version or processor; whoever has it open keeps it
                    target.rename(old / target.name)
                folder.rename(target)

    @contextmanager
    def working(self, name: str, what: str, on_progress: Progress | None = None) -> Iterator[Held]:
        """Hold a model's lock; reports another process's progress while waiting for it."""

        def on_wait(owner: Owner | None) -> None:
            if on_progress:
                on_progress(f"waiting for {owner or 'another process'}", owner.share if owner else 0.0)

        location = self.location(name)
        with writing(location.root):
            sweep(location.root)
            with alone(location, what, on_wait) as held:
                location.folder.mkdir(exist_ok=True)
                yield held

    @contextmanager
    def unfinished(self, name: str) -> Iterator[Path]:
        """A folder beside the variants of `name`, deleted at the end unless renamed."""
        with self.working(name, "working"), unfinished(self.folder(name)) as folder:
            yield folder

    def find_variant(self, model: StoredModel, backend: str, precision: str) -> Variant | None:
        """The variant that `lowered` would return without lowering."""
        variant = variants.read(self.folder(model.name) / f"{backend}-{precision}")
        return variant if variant and variant.signature == backends.get(backend).signature() else None

    def keep_verdict(self, variant: Variant, device: str, verdict: Mapping[str, Any]) -> None:
        """Keep a verdict with the variant, until that is lowered again."""
        path = variant.folder / variants.FACTS
        facts = read_manifest(path)
        with writing(variant.folder.parent.parent):
            write_json(path, {**facts, "verdicts": {**facts.get("verdicts", {}), device: verdict}})

    def tokenizer(self, model: StoredModel) -> Path:
        """The tokenizer.json of `model`: its publisher's, or one that was converted, and is kept."""
        published = model.folder / "tokenizer.json"
        if published.is_file():
            return published

        from model_store.tokenizers import tokenizer

        location = self.location(model.name)
        made = location.folder / f"tokenizer-{tokenizer.REVISION}.json"
        if not made.is_file():
            content = tokenizer.convert(model.folder)
            with writing(location.root):
                made.parent.mkdir(parents=True, exist_ok=True)
                write_json(made, content, indent=None)
        return made

    def remove(self, name: str) -> int:
        """Delete what was made for a model, and its checkpoint if it was pulled; returns the bytes freed.

        A user's own checkpoint folder stays. Raises StoreError if another process works on the model.
        """
        return self.remove_from(self.find_removable(name))

    def find_removable(self, name: str) -> Location:
        """The location of the model `name`, complete or not, or linked to this path."""
        from model_store.hub import pulled
        from model_store.local import sources

        for root in self.roots:
            location = Location(root, pulled.find(root, name, unfinished=True) or name)
            if is_name(location.name) and any(
                folder.is_dir() for folder in (location.folder, location.checkpoint, location.partial)
            ):
                return location
        if name != BUILTIN and (source := sources.find(name, self.places)):
            names = self.names_of(source.path)
            if len(names) == 1:
                return self.location(names[0])
            several = f"{len(names)} models are linked to {name}: {', '.join(names)}; give the ones to remove"
            raise StoreError(several if names else f"nothing to delete for {name}; the folder itself is never touched")
        return self.location(name if name == BUILTIN else self.get(name).name)

    def remove_from(self, location: Location) -> int:
        """Delete a model from one store folder: manifests first, so that half a model is never found."""
        from model_store.hub import pulled

        folder, gone = location.folder, location.removed
        with writing(location.root), alone(location, REMOVING):
            freed = freed_by(folder) if folder.is_dir() else 0
            location.manifest.unlink(missing_ok=True)
            freed += pulled.remove(location) or 0
            shutil.rmtree(gone, ignore_errors=True)
            if folder.is_dir():
                folder.rename(gone)
                shutil.rmtree(gone)
            return freed

    def forget(self, name: str, digest: str) -> None:
        """Delete what was made for a model whose checkpoint has changed, except a copied checkpoint."""
        folder = self.folder(name)
        with self.working(name, "checking it again"):
            manifest = self.location(name).manifest
            if manifest.exists() and read_manifest(manifest).get("fingerprint") == digest:
                return  # another process was faster
            manifest.unlink(missing_ok=True)
            for path in folder.iterdir():
                if path.is_dir() and path.name != IMPORTED:
                    shutil.rmtree(path)
                elif path.is_file():
                    path.unlink()

    def register(self, name: str, folder: Path, *, known: bool = False) -> StoredModel:
        """Describe the model `name`, renewing its manifest if its checkpoint has changed; if `known`, it has one."""
        try:
            digest = links.fingerprint(folder)
        except OSError as error:
            raise StoreError(
                f"cannot read {error.filename or folder}, where the model {name} is: {error.strerror}; put it back, or "
                f"remove the model with: chatapp rm {name}"
            ) from error
        manifest = self.location(name).manifest
        if manifest.exists():
            if read_manifest(manifest).get("fingerprint") == digest:
                return read_model(manifest.parent)
            self.forget(name, digest)
            if self.renew(name, folder):
                digest = links.fingerprint(folder)
        elif known:
            raise ModelNotFound(f"{name} was removed")

        from model_store.convert import describe

        model = replace(describe(folder), name=name)
        with suppress(StoreError):  # models can be shown if nothing can be written; lowering will say so
            self.keep(model, digest)
        return model

    def keep(self, model: StoredModel, digest: str) -> None:
        """Write a model's manifest, with the fingerprint of its checkpoint."""
        facts = {**asdict(model), "folder": str(model.folder), "fingerprint": digest}
        del facts["variants"]
        manifest = self.location(model.name).manifest
        with writing(self.root):
            manifest.parent.mkdir(parents=True, exist_ok=True)
            write_json(manifest, facts)

    def registered(self, name: str) -> StoredModel | None:
        """The model `name` by its manifest; None if it has none."""
        location = self.location(name)
        return read_model(location.folder) if os.path.exists(location.manifest) else None

    def name_for(self, source: Path, wish: str = "") -> str:
        """A free name for the model at `source`, like the wished one."""
        from model_store.hub import pulled

        if source == self.location(source.name).checkpoint:
            return source.name
        wish = wish or (source.stem if source.is_file() else source.name)
        base = name = "".join(c if c.isalnum() or c in "-_." else "-" for c in wish).strip(".-")[:100] or "model"
        count = 1
        while (
            fault_of(name)
            or any(pulled.is_here(Location(root, name)) for root in self.roots)
            or ((other := self.registered(name)) and links.origin(other.folder) != source)
            or (not other and working_on(self.location(name)))  # a copy or pull in progress will have this name
        ):
            count += 1
            name = f"{base}-{count}"
        return name


def read_model(folder: Path) -> StoredModel:
    """Read the manifest in a folder of the store."""
    facts = read_manifest(f"{folder}/{MANIFEST}")
    try:
        del facts["fingerprint"]
        place = Path(facts["folder"])
        model = StoredModel(**{**facts, "name": folder.name, "folder": place, "variants": tuple(variants.find(folder))})
        for field, kind in TYPES.items():
            if not isinstance(getattr(model, field), kind):
                raise TypeError(f"its {field}")
        return model
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{folder}/{MANIFEST} was altered ({error}); delete the folder {folder}") from error


TYPES = {"family": str, "parameters": int, "context_length": int, "chats": bool, "size": int, "own_precision": str}
"""The types of a manifest's values, unless somebody edited it."""
