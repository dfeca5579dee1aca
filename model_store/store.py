"""The model store: find, lower, keep and remove models."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import backends
from model_store import variants
from model_store.checkpoint.fingerprints import fingerprint
from model_store.errors import ModelNotFound, StoreError, suggest
from model_store.local import imported
from model_store.local.other_apps import Places
from model_store.models import BUILTIN, StoredModel, Variant, is_name, is_new_name
from model_store.upkeep.disk import freed_by, not_writable, own, read_json, write_json
from model_store.upkeep.locks import Held, Owner, alone, working_on
from model_store.upkeep.unfinished import sweep, unfinished

BUILTIN_FOLDER = Path(__file__).parent / "builtin"
MANIFEST = "model.json"
REMOVING = "removing"

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction of it that is done, 0 to 1."""


class Store:
    """The models in one folder, or in several of which the first takes what is new: `NAME/` for each.

    A variant is complete when its folder has its final name and as many bytes as were written, and a model when its
    manifest is there; both are written under another name first, so that an interrupted command leaves nothing that
    looks whole. What a killed one leaves is deleted before the next lowering.
    """

    def __init__(self, root: Path, places: Places | None = None, more: Sequence[Path] = ()):
        self.root, self.places, self.roots = root, places, (root, *more)

    def root_of(self, name: str) -> Path:
        """The store folder that has a model, or would get it."""
        from model_store.hub import pulled

        if not is_name(name):
            return self.root
        return next(
            (root for root in self.roots if (root / name / MANIFEST).exists() or pulled.begun(root, name)), self.root
        )

    def folder(self, name: str) -> Path:
        """Where what is made for a model is kept."""
        return own(self.root_of(name), name)

    def names(self) -> dict[str, Path]:
        """Every model but the built-in, and the store folder that has it."""
        from model_store.hub import pulled

        found: dict[str, Path] = {}
        for root in reversed(self.roots):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root) as entries:
                names = [entry.name for entry in entries if is_name(entry.name) and not entry.is_symlink()]
                parts = (MANIFEST, imported.FOLDER)
                found |= {
                    name: root for name in names if any(os.path.exists(f"{root}/{name}/{part}") for part in parts)
                }
            found |= dict.fromkeys(pulled.names(root), root)
        found.pop(BUILTIN, None)
        return dict(sorted(found.items()))

    def survey(self) -> tuple[list[StoredModel], dict[str, str]]:
        """The models that can be read, and by name what is wrong with others or with how they were pulled."""
        from model_store.hub import pulled

        found, broken = [self.get(BUILTIN)], {}
        for name, root in self.names().items():
            try:
                found.append(self.kept(name, root))
                pulled.listed(pulled.checkpoint(root, name))
            except StoreError as error:
                broken[name] = str(error)
        return found, broken

    def broken(self) -> dict[str, str]:
        """What is wrong with the models that cannot be read, and with the manifests of those that were pulled."""
        return self.survey()[1]

    def list(self) -> list[StoredModel]:
        """The models that can be read, the built-in first."""
        return self.survey()[0]

    def kept(self, name: str, root: Path) -> StoredModel:
        """A model of one store folder as its manifest tells, where it has one."""
        return self.known(name, root) or self.get(name)

    def get(self, name: str) -> StoredModel:
        """The model called `name`, at this path, or pulled from or in the Hub's cache of this repository."""
        try:
            return self.find(name)
        except StoreError as error:
            owner = working_on(self.root_of(name), name) if is_name(name) else None
            if owner and owner.what == REMOVING:  # half of it is gone
                raise ModelNotFound(f"{name} is being removed by {owner}") from error
            raise

    def find(self, name: str) -> StoredModel:
        """What `get` gives, while nobody removes it."""
        if name == BUILTIN:
            return self.register(BUILTIN, BUILTIN_FOLDER)
        from model_store.hub import pulled
        from model_store.local import imports

        for root in self.roots:
            if pulled.is_here(root, name):
                return self.register(name, pulled.checkpoint(root, name))
        if is_name(name):
            if model := self.known(name):
                return self.register(name, model.folder)
            if (copied := self.folder(name) / imported.FOLDER).is_dir():  # an import was stopped at its end
                return self.register(name, copied)
        here = (None if os.path.exists(os.path.expanduser(name)) else pulled.find(root, name) for root in self.roots)
        if found := next(filter(None, here), None):
            return self.register(found, pulled.checkpoint(self.root_of(found), found))
        if name and (source := imports.find(name, self.places)):
            return imports.adopt(self, source)
        hint = suggest(name, [BUILTIN, *self.names()], "chatapp list shows the models that are here")
        if pulled.can_be_pulled(name):
            hint = f"to fetch it: chatapp pull {name}"
        raise ModelNotFound(f"there is no model and no folder called {name!r}; {hint}")

    def lowered(
        self, model: StoredModel, backend: str, precision: str | None = None, on_progress: Progress | None = None
    ) -> Variant:
        """The variant of `model` for `backend`, lowered now if that has not been done on this machine."""
        from backends import quantize

        precision = precision or model.precision
        if not model.export:
            quantize.precision(precision)  # refuses an unknown one, before anything is written
        if found := self.found(model, backend, precision):
            return replace(found, seconds=0.0)

        start = time.perf_counter()
        with self.working(model.name, f"lowering for {backend}", on_progress) as held:
            if not self.found(model, backend, precision):  # another process may have been quicker
                self.lower(model, backend, precision, held.telling(on_progress))
        from model_store.upkeep import runtime_caches

        runtime_caches.trim(self)
        found = self.found(model, backend, precision)
        if not found:
            raise StoreError(f"{model.name} was removed while it was lowered for {backend}; try again")
        return replace(found, seconds=time.perf_counter() - start)

    def lower(self, model: StoredModel, backend: str, precision: str, on_progress: Progress) -> None:
        """Make a variant, which replaces one of another version or processor."""
        from model_store.checkpoint.convert import convert

        target = own(self.root_of(model.name), model.name, f"{backend}-{precision}")
        source = str(read_json(path).get("fingerprint")) if (path := target.with_name(MANIFEST)).exists() else ""
        began = time.perf_counter()
        with unfinished(target.parent) as folder:
            convert(model.folder, folder, backend=backend, precision=precision, on_progress=on_progress)
            seconds, signature = time.perf_counter() - began, backends.get(backend).signature()
            write_json(folder / variants.FACTS, variants.facts(folder, signature, seconds, source))
            shutil.rmtree(target, ignore_errors=True)  # of another version or processor
            folder.rename(target)

    @contextmanager
    def working(self, name: str, what: str, on_progress: Progress | None = None) -> Iterator[Held]:
        """Be the only one to work on a model; tells what another does while this waits for it."""

        def on_wait(owner: Owner | None) -> None:
            if on_progress:
                on_progress(f"waiting for {owner or 'another process'}", owner.share if owner else 0.0)

        root = self.root_of(name)
        try:
            sweep(root)
            with alone(root, name, what, on_wait) as held:
                own(root, name).mkdir(exist_ok=True)
                yield held
        except OSError as error:
            raise not_writable(root, error) from error

    @contextmanager
    def unfinished(self, name: str, on_progress: Progress | None = None) -> Iterator[Path]:
        """A folder beside the variants of `name`, which disappears unless it is renamed; one process has one."""
        with self.working(name, "working", on_progress), unfinished(self.folder(name)) as folder:
            yield folder

    def found(self, model: StoredModel, backend: str, precision: str) -> Variant | None:
        """The variant that `lowered` would give without lowering."""
        variant = variants.read(self.folder(model.name) / f"{backend}-{precision}")
        return variant if variant and variant.signature == backends.get(backend).signature() else None

    def keep_verdict(self, variant: Variant, device: str, verdict: Mapping[str, Any]) -> None:
        """Keep what verification found with the variant, until it is lowered anew."""
        path = variant.folder / variants.FACTS
        facts = read_json(path)
        try:
            write_json(path, {**facts, "verdicts": {**facts.get("verdicts", {}), device: verdict}})
        except OSError as error:
            raise not_writable(self.root, error) from error

    def tokenizer(self, model: StoredModel) -> Path:
        """The tokenizer.json of `model`: its publisher's, or one that is made of the vocabulary once, and kept."""
        published = model.folder / "tokenizer.json"
        if published.is_file():
            return published

        from model_store.tokenizers import tokenizer

        made = self.folder(model.name) / f"tokenizer-{tokenizer.REVISION}.json"
        if not made.is_file():
            content = tokenizer.convert(model.folder)
            try:
                made.parent.mkdir(parents=True, exist_ok=True)
                write_json(made, content, indent=None)
            except OSError as error:
                raise not_writable(self.root, error) from error
        return made

    def remove(self, name: str) -> int:
        """Delete what was made for a model, and its checkpoint if it was pulled; the bytes freed.

        A checkpoint folder of the user's own stays as it is. Raises StoreError while another process works on it.
        """
        from model_store.hub import pulled

        for root in self.roots:
            here = pulled.find(root, name, unfinished=True) or name
            if is_name(here) and ((root / here).is_dir() or pulled.begun(root, here)):
                return self.remove_from(root, here)
        return 0 if name == BUILTIN else self.remove(self.get(name).name)

    def remove_from(self, root: Path, name: str) -> int:
        """Delete a model from one store folder: its manifests first, so that half a model is never found."""
        from model_store.hub import pulled

        folder = own(root, name)
        try:
            with alone(root, name, REMOVING):
                freed = freed_by(folder) if folder.is_dir() else 0
                (folder / MANIFEST).unlink(missing_ok=True)
                freed += pulled.remove(root, name) or 0
                gone = folder.with_name(f".{name}.gone")
                shutil.rmtree(gone, ignore_errors=True)
                if folder.is_dir():
                    folder.rename(gone)
                    shutil.rmtree(gone)
                return freed
        except OSError as error:
            raise not_writable(root, error) from error

    def forget(self, name: str, digest: str) -> None:
        """Delete what was made for a model whose checkpoint has changed, but for what was imported."""
        folder = self.folder(name)
        with self.working(name, "looking at it anew"):
            manifest = folder / MANIFEST
            if manifest.exists() and read_json(manifest).get("fingerprint") == digest:
                return  # another process was quicker
            manifest.unlink(missing_ok=True)
            for path in folder.iterdir():
                if path.is_dir() and path.name != imported.FOLDER:
                    shutil.rmtree(path)
                elif path.is_file():
                    path.unlink()

    def register(self, name: str, folder: Path) -> StoredModel:
        """The model `name`, whose manifest is written anew when its checkpoint has changed."""
        try:
            digest = fingerprint(folder)
        except OSError as error:
            raise StoreError(
                f"cannot read {error.filename or folder}, where the model {name} is: {error.strerror}; put it back, or "
                f"forget the model with: chatapp rm {name}"
            ) from error
        manifest = self.folder(name) / MANIFEST
        if manifest.exists():
            if read_json(manifest).get("fingerprint") == digest:
                return self.read(name)
            self.forget(name, digest)

            from model_store.local import imports

            if imports.renew(self, name, folder):
                digest = fingerprint(folder)

        from model_store.checkpoint.convert import describe

        model = replace(describe(folder), name=name)
        with suppress(StoreError):  # a model can be shown where nothing can be written; lowering will say so
            self.keep(model, digest)
        return model

    def keep(self, model: StoredModel, digest: str) -> None:
        """Write the manifest of a model, whose checkpoint has this fingerprint."""
        facts = {**asdict(model), "folder": str(model.folder), "fingerprint": digest}
        del facts["variants"]
        manifest = self.folder(model.name) / MANIFEST
        try:
            manifest.parent.mkdir(parents=True, exist_ok=True)
            write_json(manifest, facts)
        except OSError as error:
            raise not_writable(self.root, error) from error

    def known(self, name: str, root: Path | None = None) -> StoredModel | None:
        """The model called `name` if it has a manifest, as that tells."""
        folder = own(root or self.root_of(name), name)
        return read_model(folder) if os.path.exists(folder / MANIFEST) else None

    def read(self, name: str) -> StoredModel:
        """The model called `name` as its manifest tells."""
        return read_model(self.folder(name))

    def name_for(self, source: Path, wish: str = "") -> str:
        """A name for the model at `source` that no other one has, near what is wished for."""
        from model_store.hub import pulled

        if source == pulled.checkpoint(self.root_of(source.name), source.name):
            return source.name
        wish = wish or (source.stem if source.is_file() else source.name)
        base = name = "".join(c if c.isalnum() or c in "-_." else "-" for c in wish).strip(".-")[:100] or "model"
        count = 1
        while (
            name == BUILTIN
            or not is_new_name(name)
            or any(pulled.is_here(root, name) for root in self.roots)
            or ((other := self.known(name)) and imported.origin(other.folder) != source)
        ):
            count += 1
            name = f"{base}-{count}"
        return name


def read_model(folder: Path) -> StoredModel:
    """The model whose manifest is in a folder of the store."""
    facts = read_json(f"{folder}/{MANIFEST}")
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
"""What a manifest that nobody has edited holds."""
