"""All that is known of a model: what it is, how it can run here and why, and what removing it frees."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chatapp.evaluation.verify import telling
from chatapp.models.catalogue import Machine, Row, judged
from chatapp.placement import selection
from chatapp.placement.record import Measurement
from model_store import Store, StoreError, Variant
from model_store.hub import pulled
from model_store.hub.card import introduction
from model_store.hub.catalog import catalog
from model_store.local.imported import origin
from model_store.upkeep import blobs
from model_store.upkeep.disk import walk


@dataclass(frozen=True)
class Details:
    """All that is known of a model."""

    facts: tuple[tuple[str, str], ...]
    """Each with its name."""
    ways: tuple[Measurement, ...] = ()
    """How it can run here, the best first, then what was rejected."""
    card: str = ""
    """How its publisher introduces it."""


def details(store: Store, row: Row, this: Machine, objective: str = "chat") -> Details:
    """All that is known of a model."""
    if row.state != "here":
        return Details(tuple(told(row)))
    try:
        model = store.get(row.name)
    except StoreError as error:
        return Details((*told(row), ("problem", str(error))))
    facts = pulled.source(model.folder) if row.name != "builtin" else {}
    found = judged(store.folder(row.name), model, this)
    ranking = selection.rank(found, objective)
    own: Sequence[tuple[str, str]] = [
        ("family", f"{model.family}, {model.context_length:,} tokens of context"),
        ("precision", f"{model.precision}: {model.precision_reason}"),
        ("checkpoint", str(origin(model.folder))),
        *([("from", f"{facts['endpoint']}/{facts['repository']} at {str(facts['commit'])[:12]}")] if facts else []),
        *(fact for one in model.variants for fact in checks(one)),
    ]
    rejected = [one for one in found if one not in ranking]
    return Details((*told(row), *own), (*ranking, *rejected), introduction(model.folder))


def told(row: Row) -> Iterator[tuple[str, str]]:
    """What a row says in sentences."""
    if row.good_for:
        yield "good for", row.good_for
    if row.problem:
        yield "fits", f"{row.fits}: {row.problem}"
    if row.licence or row.gated:
        yield "licence", f"{row.licence}{', gated: its publisher wants to be asked first' if row.gated else ''}"
    if row.source != row.name or row.state == "absent":
        entry = catalog().get(row.name)
        yield "repository", entry.repository if entry else row.source


def checks(variant: Variant) -> Iterator[tuple[str, str]]:
    """What verification found about a variant."""
    way = f"{variant.backend} {variant.precision}"
    for device, verdict in variant.verdicts.items():
        word = "verified" if verdict["passed"] else "FAILED"
        failures = "".join(f"; {failure}" for failure in verdict.get("failures", ()))
        day: Any = verdict.get("date", "")  # Any: JSON, as chatapp.evaluation.verify wrote it
        against = telling(str(verdict.get("reference", "")))
        yield "check", f"{word} on {way} {device}, {str(day)[:10]}, against {against}{failures}"
    if not variant.verdicts:
        yield "check", f"{way} is not verified yet"


def freed(store: Store, row: Row) -> int:
    """Bytes that removing a model frees: not those of files that another model has, too."""
    root = store.root_of(row.name)
    folders = (root / row.name, pulled.checkpoint(root, row.name), pulled.unfinished(root, row.name))
    files = [file for folder in folders if folder.is_dir() for file in walk(folder)]
    names = Counter((file.st_dev, file.st_ino) for file in files)
    sizes = {(file.st_dev, file.st_ino): (file.st_size, file.st_nlink) for file in files}
    kept = (
        {(file.st_dev, file.st_ino) for file in walk(root / blobs.FOLDER)} if (root / blobs.FOLDER).is_dir() else set()
    )
    return sum(size for file, (size, links) in sizes.items() if links <= names[file] + (file in kept))
