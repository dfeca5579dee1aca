"""The catalogue of short names for repositories, and names of stored models."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from backends.suggest import suggest
from model_store.errors import ModelNotFound
from model_store.models import BUILTIN

PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
REPOSITORY = re.compile(rf"({PART}/{PART})(?:@([A-Za-z0-9_][A-Za-z0-9_./-]{{0,100}}))?")
PAGE = re.compile(rf"(?:https?://)?[a-z0-9-]+\.[^/]+/({PART}/{PART})")
"""The URL of a repository's page, or Ollama's name of it: hf.co/org/name."""
GGUF = re.compile(rf"({PART})[-_.]gguf\b.*", re.IGNORECASE)
"""A name that says that there are GGUF files, and which model is in them."""


@dataclass(frozen=True)
class Entry:
    """A model of the catalogue."""

    name: str
    kind: str
    family: str
    repository: str
    parameters: int
    """Number of parameters, in millions."""
    cache: int
    """Megabytes of a conversation's keys and values."""
    licence: str
    good_for: str
    revision: str | None = None
    gated: bool = False
    active: int = 0
    """In a mixture of experts, the parameters used per token, in millions."""


@dataclass(frozen=True)
class Reference:
    """A repository to pull, and the name of its model here."""

    name: str
    repository: str
    revision: str | None


@cache
def catalog() -> Mapping[str, Entry]:
    """Every model of the catalogue by name."""
    kinds = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: Entry(name, kind, **facts) for kind, entries in kinds.items() for name, facts in entries.items()}


def tell_pull(text: str) -> str:
    """How to get a model that is not here; what looks like a repository may be a path."""
    if hint := tell_gguf(text):
        return hint
    page = PAGE.match(text)
    if page or text.lower() in catalog():
        return f"to pull it: chatapp pull {page[1] if page else text}"
    return f"check the path or, if the Hub has it: chatapp pull {text}" if REPOSITORY.fullmatch(text) else ""


def tell_gguf(text: str) -> str:
    """What to do where a repository's name says that it holds GGUF files, which are not pulled."""
    found = GGUF.fullmatch(text.rpartition("/")[2]) if "/" in text and not text.lower().endswith(".gguf") else None
    if not found:
        return ""
    meant = suggest(found[1].lower(), catalog(), near=0.8)
    checkpoint = f"pull the checkpoint ({meant})" if meant else "pull the checkpoint"
    return f"GGUF files are not pulled: {checkpoint}, or download one, and: chatapp import FILE"


def refer(text: str) -> Reference:
    """Parse `text`: a name of the catalogue, or `organisation/name`, `...@revision`."""
    if entry := catalog().get(text.lower()):
        return Reference(entry.name, entry.repository, entry.revision)
    found = REPOSITORY.fullmatch(text)
    if not found or ".." in text or "--" in found[1] or text.endswith((".git", "/")):
        hint = suggest(text.lower(), catalog(), "see chatapp search, or give ORGANISATION/NAME[@REVISION]")
        if text == BUILTIN:
            hint = "it comes with chatapp; run: chatapp run builtin"
        elif told := tell_gguf(text):
            hint = told
        elif page := PAGE.match(text):
            hint = f"instead of a URL, give {page[1]}"
        raise ModelNotFound(f"no model {text!r} in the catalogue; {hint}")
    repository, revision = found[1], found[2]
    for entry in catalog().values():
        if entry.repository.lower() == repository.lower() and revision in (None, entry.revision):
            return Reference(entry.name, entry.repository, entry.revision)
    name = f"{repository}@{revision}" if revision else repository
    return Reference(name.replace("/", "--"), repository, revision)
