"""Find, lower, keep and remove models."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import backends
from model_store import imported
from model_store.errors import ModelNotFound, StoreError, UnsupportedCheckpoint
from model_store.models import StoredModel, Variant
from model_store.other_apps import Places
from model_store.unfinished import PREFIX, alone, sweep

__all__ = [
    "BUILTIN",
    "ModelNotFound",
    "Places",
    "Progress",
    "Store",
    "StoreError",
    "StoredModel",
    "UnsupportedCheckpoint",
    "Variant",
    "write_json",
]

BUILTIN = "builtin"
"""The name of the model that is shipped with the package."""
BUILTIN_FOLDER = Path(__file__).parent / "builtin"
Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction of it that is done, 0 to 1."""


class Store:
    """The models under one folder: `NAME/model.json`, and a folder for each variant.

    A variant is complete when its folder has its final name and as many bytes as were written, and a model when its
    manifest is there; both are written under another name first, so that an interrupted command leaves nothing that
    looks whole. What a killed one leaves is deleted before the next lowering.
    """

    def __init__(self, root: Path, places: Places | None = None):
        self.root, self.places = root, places

    def list(self) -> list[StoredModel]:
        """Every model, the built-in first."""
        from model_store import pulled

        known = {path.parent.name for path in self.root.glob("*/model.json")}
        names = sorted({*known, *pulled.names(self.root)} - {BUILTIN})
        return [self.get(BUILTIN), *(self.read(name) if name in known else self.get(name) for name in names)]

    def get(self, name: str) -> StoredModel:
        """The model called `name`, what is at this path, or what was pulled or cached of this repository."""
        from model_store import imports, pulled

        if name == BUILTIN:
            return self.register(BUILTIN, BUILTIN_FOLDER)
        if pulled.is_here(self.root, name):
            return self.register(name, pulled.checkpoint(self.root, name))
        if is_name(name) and (self.root / name / "model.json").exists():
            return self.register(name, self.read(name).folder)
        is_path = bool(name) and Path(name).expanduser().exists()
        if not is_path and (found := pulled.find(self.root, name)):
            return self.register(found, pulled.checkpoint(self.root, found))
        if name and (source := imports.find(name, self.places)):
            return imports.adopt(self, source)
        known = [BUILTIN, *(path.parent.name for path in self.root.glob("*/model.json"))]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else "chatapp list shows the models that are here"
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
        signature = backends.get(backend).signature()
        target = self.root / model.name / f"{backend}-{precision}"
        if lowered_for(target) == signature:
            return replace(read_variant(target), seconds=0.0)

        from model_store.convert import convert

        start = time.perf_counter()
        with self.unfinished(model.name, on_progress) as folder:
            if lowered_for(target) != signature:  # another process may have been quicker
                began = time.perf_counter()
                convert(model.folder, folder, backend=backend, precision=precision, on_progress=on_progress)
                facts = {"signature": signature, "seconds": time.perf_counter() - began, "files": contents(folder)}
                write_json(folder / "variant.json", facts)
                shutil.rmtree(target, ignore_errors=True)  # of another version or processor
                folder.rename(target)
        return replace(read_variant(target), seconds=time.perf_counter() - start)

    @contextmanager
    def unfinished(self, name: str, on_progress: Progress | None = None) -> Iterator[Path]:
        """A folder beside the variants of `name`, which disappears unless it is renamed; one process has one."""
        parent = self.root / name
        try:
            parent.mkdir(parents=True, exist_ok=True)
            sweep(self.root)
            with alone(parent, lambda: on_progress("waiting for another process", 0.0) if on_progress else None):
                folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise not_writable(self.root, error) from error

    def found(self, model: StoredModel, backend: str, precision: str) -> Variant | None:
        """The variant that `lowered` would give without lowering."""
        target = self.root / model.name / f"{backend}-{precision}"
        return read_variant(target) if lowered_for(target) == backends.get(backend).signature() else None

    def keep_verdict(self, variant: Variant, device: str, verdict: Mapping[str, Any]) -> None:
        """Keep what verification found with the variant, until it is lowered anew."""
        path = variant.folder / "variant.json"
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

        from model_store import tokenizer

        made = self.root / model.name / f"tokenizer-{tokenizer.REVISION}.json"
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

        A checkpoint folder of the user's own stays as it is.
        """
        from model_store import pulled

        here = pulled.find(self.root, name, unfinished=True) or name
        if is_name(here) and (freed := pulled.remove(self.root, here)) is not None:
            return freed + (self.forget(here) if (self.root / here).is_dir() else 0)
        if not is_name(name) or not (self.root / name).is_dir():
            return 0 if name == BUILTIN else self.forget(self.get(name).name)
        return self.forget(name)

    def forget(self, name: str) -> int:
        """Delete what was made for a model; the bytes freed."""
        folder = self.root / name
        freed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        (folder / "model.json").unlink(missing_ok=True)  # first, so that half a model is never found
        shutil.rmtree(folder)
        return freed

    def clear(self, name: str) -> None:
        """Delete what was made for a model, but for what was imported."""
        (self.root / name / "model.json").unlink(missing_ok=True)
        for path in (self.root / name).iterdir():
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
        if (self.root / name / "model.json").exists():
            if read_json(self.root / name / "model.json").get("fingerprint") == digest:
                return self.read(name)
            self.clear(name)

            from model_store import imports

            if imports.renew(self, name, folder):
                digest = fingerprint(folder)

        from model_store.convert import describe

        model = replace(describe(folder), name=name)
        facts = {**asdict(model), "folder": str(folder), "fingerprint": digest}
        del facts["variants"]
        with suppress(OSError):  # a model can be shown where nothing can be written; lowering will say so
            (self.root / name).mkdir(parents=True, exist_ok=True)
            write_json(self.root / name / "model.json", facts)
        return model

    def read(self, name: str) -> StoredModel:
        """The model called `name` as its manifest tells."""
        facts = read_json(self.root / name / "model.json")
        try:
            facts.pop("fingerprint")
            found = sorted(path.parent for path in (self.root / name).glob("[!.]*/variant.json"))
            variants = tuple(read_variant(folder) for folder in found if lowered_for(folder))
            return StoredModel(**{**facts, "name": name, "folder": Path(facts["folder"]), "variants": variants})
        except (KeyError, TypeError, ValueError) as error:
            path = self.root / name
            raise StoreError(f"{path}/model.json was altered ({error}); delete the folder {path}") from error

    def name_for(self, source: Path, wish: str = "") -> str:
        """A name for the model at `source` that no other one has, near what is wished for."""
        from model_store import pulled

        if source == pulled.checkpoint(self.root, source.name):
            return source.name
        wish = wish or (source.stem if source.is_file() else source.name)
        base = name = "".join(c if c.isalnum() or c in "-_." else "-" for c in wish).strip(".-") or "model"
        count = 1
        while (
            name in (BUILTIN, pulled.FOLDER)
            or pulled.is_here(self.root, name)
            or ((self.root / name / "model.json").exists() and imported.origin(self.read(name).folder) != source)
        ):
            count += 1
            name = f"{base}-{count}"
        return name


def is_name(name: str) -> bool:
    """Whether `name` can be the name of a model rather than a path."""
    return name not in ("", ".", "..") and not set(name) & set("/\\~\0")


def fingerprint(folder: Path) -> str:
    """What changes when the checkpoint in `folder` does: names, sizes, times, and the last bytes of each file.

    The bytes are for archives that give every file the same time.
    """
    digest = hashlib.sha256(str(folder).encode())
    linked = imported.linked(folder)
    for path in sorted([*folder.iterdir(), *folder.glob("additional_chat_templates/*"), *([linked] if linked else [])]):
        if path.suffix in (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja") or path == linked:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                file.seek(max(0, status.st_size - 4096))
                digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode() + file.read())
    return digest.hexdigest()


def lowered_for(folder: Path) -> str | None:
    """What the variant in `folder` was lowered for; None if there is no complete one."""
    if not (folder / "variant.json").exists():
        return None
    facts, here = read_json(folder / "variant.json"), contents(folder)
    written = facts.get("files")
    if not isinstance(written, dict) or any(here.get(name) != size for name, size in written.items()):
        return None  # the power failed, or half of it was deleted
    return facts.get("signature")


def contents(folder: Path) -> dict[str, int]:
    """The files in a folder with their bytes; runtimes add some later."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def read_variant(folder: Path) -> Variant:
    """The variant in `folder`."""
    backend, precision = folder.name.split("-", 1)
    facts = read_json(folder / "variant.json")
    verdicts = facts.get("verdicts", {})
    if not isinstance(verdicts, dict) or not all(
        isinstance(verdict, dict) and isinstance(verdict.get("passed"), bool) for verdict in verdicts.values()
    ):
        raise StoreError(f"{folder}/variant.json was altered (its verdicts); delete the folder {folder}")
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    size = sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())  # some have two names
    return Variant(backend, precision, folder, size, float(facts["seconds"]), verdicts)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`, one of the store's own files."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); delete the folder {path.parent}") from error
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write `path` whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=indent) + "\n", "utf-8")
    temporary.replace(path)


def not_writable(root: Path, error: OSError) -> StoreError:
    """The error for a store in which nothing can be written."""
    return StoreError(
        f"cannot write to the model store {root} ({error.strerror or error}); set CHATAPP_HOME to another folder"
    )
