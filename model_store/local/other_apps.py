"""Find other applications' models: the Hugging Face Hub's cache, Ollama, LM Studio.

Nothing there is written to. Names in their files are only followed if they stay inside their folders.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model_store.errors import ModelNotFound, UnsupportedCheckpoint
from model_store.files import read_json

REPOSITORY = re.compile(r"(?!.*(?:--|\.\.))[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,127}", re.ASCII)
OLLAMA_MODEL = "application/vnd.ollama.image.model"


@dataclass(frozen=True)
class Places:
    """The folders of other applications' models."""

    hub_cache: Path
    """The Hugging Face Hub's cache."""
    ollama: Path
    lm_studio: Path


def hub_snapshot(repository: str, cache: Path) -> Path | None:
    """The folder of the newest complete snapshot of `org/repo` in the Hub's cache; None if there is none."""
    if not REPOSITORY.fullmatch(repository):
        return None
    folder = cache / f"models--{repository.replace('/', '--')}"
    return snapshot_of(folder) if folder.is_dir() else None


def snapshot_of(folder: Path) -> Path:
    """A cached repository's main snapshot; UnsupportedCheckpoint says why there is none."""
    reference = folder / "refs" / "main"
    try:
        commit = reference.read_text("utf-8").strip()
    except (OSError, ValueError):
        raise UnsupportedCheckpoint(f"{folder} has no snapshot called main (refs/main); download it again") from None
    if not COMMIT.fullmatch(commit):
        raise UnsupportedCheckpoint(f"{reference} contains no commit ({commit[:60]!r}); download it again")
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir():
        raise UnsupportedCheckpoint(f"the snapshot {commit} of {repository_of(folder)} was deleted; download it again")
    for path in snapshot.rglob("*"):
        if path.is_symlink() and not path.exists():
            raise UnsupportedCheckpoint(
                f"{repository_of(folder)} in {folder.parent} is incomplete: {path.name} is missing; download it again"
            )
        if not path.resolve().is_relative_to(folder.parent.resolve()):
            raise UnsupportedCheckpoint(f"{path} points outside the cache, to {path.resolve()}; download it again")
    return snapshot


def repository_of(folder: Path) -> str:
    """The name of a repository in the Hub's cache."""
    return folder.name.removeprefix("models--").replace("--", "/", 1)


def repositories(cache: Path) -> Iterator[str]:
    """Yield the names of the models in the cache of the Hub."""
    for folder in sorted(cache.glob("models--*")):
        if REPOSITORY.fullmatch(name := repository_of(folder)) and folder.is_dir():
            yield name


def of_another_app(given: str, places: Places) -> tuple[Path, str] | None:
    """The model of `ollama:NAME[:TAG]` or `lmstudio:PUBLISHER/REPOSITORY`, and a name for it."""
    app, colon, name = given.partition(":")
    if not colon or app not in ("ollama", "lmstudio"):
        return None
    return ollama(name, places.ollama) if app == "ollama" else lm_studio(name, places.lm_studio)


def ollama(name: str, root: Path) -> tuple[Path, str]:
    """The GGUF file of a model of Ollama."""
    path, _, tag = name.partition(":")
    words = [*path.split("/"), tag or "latest"]
    if len(words) > 4 or not all(WORD.fullmatch(word) and ".." not in word for word in words):
        raise ModelNotFound(f"{name!r} is not an Ollama model name, such as llama3.2 or llama3.2:1b")
    words = ["registry.ollama.ai", "library"][: 4 - len(words)] + words
    manifest = root.joinpath("manifests", *words)
    if not manifest.is_file():
        there = sorted(one.parent.name for one in root.glob("manifests/*/*/*/*"))
        hint = f"it has {', '.join(there)}" if there else "if its folder is elsewhere, set OLLAMA_MODELS"
        raise ModelNotFound(f"Ollama has no model {name!r} in {root}; {hint}")
    layers = read_json(manifest).get("layers")
    digests = [
        layer.get("digest")
        for layer in (layers if isinstance(layers, list) else [])
        if isinstance(layer, dict) and layer.get("mediaType") == OLLAMA_MODEL
    ]
    found = DIGEST.fullmatch(str(digests[0])) if len(digests) == 1 else None
    if not found:
        raise UnsupportedCheckpoint(f"{manifest} does not name one file with weights; pull the model again with Ollama")
    blob = root / "blobs" / f"sha256-{found[1]}"
    if not blob.is_file():
        raise UnsupportedCheckpoint(f"Ollama's file {blob} for {name} is gone; pull the model again with Ollama")
    return blob.resolve(), "-".join(words[2:] if tag else words[2:-1])


def lm_studio(name: str, root: Path) -> tuple[Path, str]:
    """The folder of a model of LM Studio."""
    words = name.split("/")
    if len(words) not in (2, 3) or not all(WORD.fullmatch(word) and ".." not in word for word in words):
        raise ModelNotFound(f"{name!r} is not an LM Studio model name, such as lmstudio-community/Qwen3-0.6B-GGUF")
    if (found := root.joinpath(*words)).exists():
        return found.resolve(), words[-1].removesuffix(".gguf")
    raise ModelNotFound(f"LM Studio has no model {name!r} in {root}")
