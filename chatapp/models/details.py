"""The details of a model: its facts, its placements here and why, its card, and what removing it frees."""

from collections import Counter
from dataclasses import dataclass

from chatapp.models.catalogue import ListedModel, Machine, read_measurements
from chatapp.models.facts import Fact, describe_check, describe_precision, describe_use
from chatapp.placement import selection
from chatapp.placement.record import Measurement
from model_store import Store, StoreError
from model_store.checkpoint.card import introduction
from model_store.checkpoint.links import origin
from model_store.disk import walk
from model_store.hub import blobs, manifest


@dataclass(frozen=True)
class Details:
    """The details of a model."""

    facts: tuple[Fact, ...]
    placements: tuple[Measurement, ...] = ()
    """How it can run here, the best first, then what was rejected."""
    card: str = ""
    """How its publisher introduces it."""


def read_details(store: Store, listed: ListedModel, this: Machine, objective: str = "chat") -> Details:
    """Read the details of a model."""
    use = tuple(describe_use(listed))
    if listed.state != "here":
        return Details(use)
    try:
        model = store.get(listed.name)
    except StoreError as error:
        return Details((*use, Fact("problem", str(error))))
    source = manifest.read_source(model.folder) if listed.name != "builtin" else {}
    found = read_measurements(store.folder(listed.name), model, this)
    ranking = selection.rank(found, objective)
    own = [
        Fact("family", f"{model.family}, {model.context_length:,} tokens of context"),
        describe_precision(model),
        Fact("checkpoint", str(origin(model.folder))),
    ]
    if source:
        page = f"{source['endpoint']}/{source['repository']}"
        own.append(Fact("from", f"{page} at {str(source['commit'])[:12]}"))
    own += [fact for variant in model.variants for fact in describe_check(variant)]
    rejected = [one for one in found if one not in ranking]
    return Details((*use, *own), (*ranking, *rejected), introduction(model.folder))


def count_freed(store: Store, listed: ListedModel) -> int:
    """Count the bytes that removing a model frees: not those of files that another model has, too."""
    location = store.location(listed.name)
    folders = (location.folder, location.checkpoint, location.partial)
    files = [file for folder in folders if folder.is_dir() for file in walk(folder)]
    names = Counter((file.st_dev, file.st_ino) for file in files)
    sizes = {(file.st_dev, file.st_ino): (file.st_size, file.st_nlink) for file in files}
    folder = location.root / blobs.FOLDER
    kept = {(file.st_dev, file.st_ino) for file in walk(folder)} if folder.is_dir() else set()
    return sum(size for file, (size, links) in sizes.items() if links <= names[file] + (file in kept))
