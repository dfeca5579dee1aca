"""Lines of code to be completed: drawn from files that were set aside, or from wheels that no model here has seen."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import javascript_lines
import npm
from corpus import (
    SKIPPED_PATH,
    Document,
    cleaned,
    cleaned_javascript,
    normalised,
    npm_packages,
    shingles,
    wheel_files,
)

from chatapp.completion.index import FolderIndex
from chatapp.completion.place import Place

KINDS = {
    "definition": r"((async )?def|class)\b",
    "return": r"(return|yield)\b",
    "assignment": r"[\w.,\[\]'\" *:|]+ ?(//|\*\*|[-+*/|&@%])?=(?!=)",
    "call": r".*\(",
    "other": r"",
}
"""Kinds of statements, each what fits it and none before it."""
SETS = ("heldout_package", "heldout_file")
NPM = "heldout_npm"
"""Packages of JavaScript and TypeScript that were set aside: a third set, where the corpus has any."""
WHOLE = ("heldout_package", NPM)
"""Sets of packages that were set aside as a whole: their other files may be looked at."""
NEAR = 3
"""Lines on either side of a case that are looked for in what was trained on."""


@dataclass(frozen=True)
class Case:
    """A place in a file, and what stands there."""

    package: str
    path: str
    prefix: str
    suffix: str
    wanted: str
    """The rest of the line, without white space at its end."""
    project: bool = False
    """Whether the package was set aside as a whole: then its other files may be looked at."""

    @property
    def source(self) -> str:
        """The package and the file's path."""
        return f"{self.package} {self.path}"

    @property
    def given(self) -> str:
        """What the line has already."""
        return self.prefix.rpartition("\n")[2]

    @property
    def kind(self) -> str:
        """What the statement is, of KINDS."""
        line = (self.given + self.wanted).strip()
        kinds = javascript_lines.KINDS if npm.is_npm(self.package) else KINDS
        return next(kind for kind, pattern in kinds.items() if re.match(pattern, line))

    @property
    def place(self) -> Place:
        """The place with its file alone: of JavaScript with its path, whose ending tells the grammar, as in an editor.

        Python's have none, as all figures of theirs before: what does not parse is not looked for there.
        """
        return Place(self.prefix, self.suffix, Path(self.path) if npm.is_npm(self.package) else None)

    def surroundings(self) -> set[int]:
        """Hashes of the runs of lines around the place."""
        before, after = self.prefix.split("\n"), self.suffix.split("\n")
        line = before[-1] + self.wanted
        return shingles("\n".join([*before[-NEAR - 1 : -1], line, *after[1 : NEAR + 1]]))


def read_documents(path: Path) -> list[Document]:
    """Reads the files of one set."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def has_npm(work: Path) -> bool:
    """Says whether packages of npm were set aside; where there is Python alone the set is empty, or not there."""
    file = work / f"{NPM}.jsonl"
    return file.exists() and file.stat().st_size > 0


def is_code(text: str) -> bool:
    """Says whether a line is a statement worth completing: no import, comment, string or prose."""
    if not 12 <= len(text) <= 90 or not re.match(r"[\w(\[{@*-]", text) or not re.search(r"[=(.:]", text):
        return False
    prose = re.match(r"[A-Z][a-z]+ [a-z]+ |([a-z]+ ){3}[a-z]+", text) and "=" not in text
    return not prose and not re.match(r"(from|import) ", text)


def is_import(text: str) -> bool:
    """Says whether a line imports something."""
    return 12 <= len(text) <= 90 and re.match(r"(from [\w.]+ )?import \w", text) is not None


def cut(document: Document, number: int, column: int, *, project: bool) -> Case:
    """Cuts a file in one of its lines."""
    lines = document["text"].split("\n")
    prefix = "\n".join([*lines[:number], lines[number][:column]])
    suffix = "\n" + "\n".join(lines[number + 1 :])
    wanted = lines[number][column:].rstrip()
    return Case(document["package"], document["path"], prefix, suffix, wanted, project)


def draw_cases(
    work: Path, count: int, seed: int, fits: Callable[[str], bool] = is_code, names: Sequence[str] = SETS
) -> list[Case]:
    """Draws lines cut in their middle, from the sets of these names in turn: held-out packages and held-out files."""
    chance = random.Random(seed)
    sets = [read_documents(work / f"{name}.jsonl") for name in names]
    cases: list[Case] = []
    while len(cases) < count:
        turn = len(cases) % len(sets)
        document = chance.choice(sets[turn])
        lines = document["text"].split("\n")
        if len(lines) < 30:
            continue
        number = chance.randrange(8, len(lines) - 4)
        line = lines[number]
        if fits(line.strip()):
            column = len(line) - len(line.lstrip()) + chance.randrange(2, len(line.strip()) - 3)
            cases.append(cut(document, number, column, project=names[turn] in WHOLE))
    return cases


def draw_places(documents: list[Document], count: int, seed: int) -> list[Case]:
    """Draws places as they are typed at: of any line, but mostly of code; in its middle, before it and at its end."""
    chance = random.Random(seed)
    packages: dict[str, list[Document]] = {}
    for document in documents:
        if document["text"].count("\n") > 30:
            packages.setdefault(document["package"], []).append(document)
    names = [name for name, files in packages.items() if len(files) > 2]
    cases: list[Case] = []
    while len(cases) < count:
        document = chance.choice(packages[chance.choice(names)])
        lines = document["text"].split("\n")
        number = chance.randrange(8, len(lines) - 4)
        line, text = lines[number], lines[number].strip()
        if len(text) < 6 or (chance.random() < 0.75 and not is_code(text)):
            continue
        kind, indentation = chance.random(), len(line) - len(line.lstrip())
        inside = indentation + chance.randrange(2, len(text) - 3)
        column = inside if kind < 0.75 else len(line) if kind < 0.8 else indentation if kind < 0.92 else 0
        cases.append(cut(document, number, column, project=True))
    return cases


def read_wheels(folder: Path) -> Iterator[Document]:
    """Reads the Python files of the permissively licensed wheels in a folder, each text once."""
    seen: set[int] = set()
    for metadata, _, files in wheel_files(sorted(folder.glob("*.whl"))):
        for path, read in files.items():
            text = "" if SKIPPED_PATH.search(path) else cleaned(read())[0]
            if is_new(text, seen):
                yield {"package": normalised(metadata["Name"]), "path": path, "text": text}


def read_tarballs(folder: Path) -> Iterator[Document]:
    """Reads the JavaScript and TypeScript of the permissively licensed packages of npm in a folder, each text once."""
    seen: set[int] = set()
    for source, files in npm_packages(folder):
        for path, read in files.items():
            text = "" if npm.SKIPPED_PATH.search(path) else cleaned_javascript(path, read())[0]
            if is_new(text, seen):
                yield {"package": source.package, "path": path, "text": text}


def is_new(text: str, seen: set[int]) -> bool:
    """Says whether most of a text's runs of lines were not seen before, and sees them then."""
    runs = shingles(text)
    new = bool(text) and len(runs & seen) <= 0.15 * len(runs)
    seen |= runs if new else set()
    return new


class Projects:
    """The files of packages, each package in a folder of its own, as they are seen from an editor."""

    def __init__(self, documents: list[Document], folder: Path):
        self.folder = folder
        self.indexes: dict[str, FolderIndex] = {}
        self.cut: tuple[Path, str] | None = None
        """The file that lacks the rest of a line, and the whole of it."""
        for document in documents:
            path = folder / document["package"] / document["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document["text"], encoding="utf-8")

    def place(self, case: Case) -> Place:
        """A case among the other files of its package, with what is wanted nowhere on disk."""
        path = self.write(case)
        if case.package not in self.indexes:
            self.indexes[case.package] = FolderIndex(self.folder / case.package)
        self.indexes[case.package].scan()
        return Place(case.prefix, case.suffix, path, folder=self.indexes[case.package])

    def write(self, case: Case) -> Path:
        """Writes the file of a case as it is before the line is completed, and makes the one before whole again."""
        if self.cut:
            self.cut[0].write_text(self.cut[1], encoding="utf-8")
        path = self.folder / case.package / case.path
        self.cut = path, path.read_text(encoding="utf-8")
        path.write_text(case.prefix + case.suffix, encoding="utf-8")
        return path
