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
HUB = r"(?:(?:https?://)?(?:huggingface\.co|hf\.co)/)?"
REPOSITORY = re.compile(rf"{HUB}({PART}/{PART})(?::({PART}))?(?:@([A-Za-z0-9_][A-Za-z0-9_./-]{{0,100}}))?")
"""A repository, its page's URL or Ollama's name of it (hf.co/org/name); a GGUF file's quantisation; a revision."""
SPELLING = "ORGANISATION/NAME[:QUANTISATION][@REVISION]"
PAGE = re.compile(rf"(?:https?://)?[a-z0-9-]+\.[^/]+/({PART}/{PART})")
"""The beginning of any web page's URL that may be a repository's."""


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
    quantization: str | None = None
    """The quantisation of the GGUF file to pull, in capitals, or the file's name without its ending."""


@cache
def catalog() -> Mapping[str, Entry]:
    """Every model of the catalogue by name."""
    kinds = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: Entry(name, kind, **facts) for kind, entries in kinds.items() for name, facts in entries.items()}


def tell_pull(text: str) -> str:
    """How to get a model that is not here; what looks like a repository may be a path."""
    page, found = PAGE.match(text), REPOSITORY.fullmatch(text)
    if page or text.lower() in catalog():
        wanted = spell(*found.groups()) if found else page[1] if page else text
        return f"to pull it: chatapp pull {wanted}"
    return f"check the path or, if the Hub has it: chatapp pull {text}" if found else ""


def spell(repository: object, quantization: object, revision: object) -> str:
    """What `refer` parses."""
    return f"{repository}{f':{quantization}' if quantization else ''}{f'@{revision}' if revision else ''}"


def name_of(text: str) -> str:
    """The name in the store of the model that a text of `spell` means."""
    return text.replace("/", "--").replace(":", "--")


def refer(text: str) -> Reference:
    """Parse `text`: a name of the catalogue, or `organisation/name`, `...:quantisation`, `...@revision`."""
    if entry := catalog().get(text.lower()):
        return Reference(entry.name, entry.repository, entry.revision)
    found = REPOSITORY.fullmatch(text)
    if not found or ".." in text or "--" in found[1] or text.endswith((".git", "/")):
        hint = suggest(text.lower(), catalog(), f"see chatapp search, or give {SPELLING}")
        if text == BUILTIN:
            hint = "it comes with chatapp; run: chatapp run builtin"
        elif page := PAGE.match(text):
            hint = f"instead of a URL, give {page[1]}"
        raise ModelNotFound(f"no model {text!r} in the catalogue; {hint}")
    repository, quantization, revision = found.groups()
    if quantization:
        quantization = quantization.upper().removesuffix(".GGUF")
    for entry in catalog().values():
        if entry.repository.lower() == repository.lower() and revision in (None, entry.revision) and not quantization:
            return Reference(entry.name, entry.repository, entry.revision)
    return Reference(name_of(spell(repository, quantization, revision)), repository, revision, quantization)
