"""A place in code to complete, and what can be seen from there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from chatapp.generation import Surroundings

BEFORE, AFTER = 1_000_000, 200_000
"""Characters before and after a place that are considered."""
ENDINGS = {
    "python": ".py",
    "javascript": ".js",
    "javascriptreact": ".jsx",
    "typescript": ".ts",
    "typescriptreact": ".tsx",
    "c": ".c",
    "cpp": ".cpp",
    "go": ".go",
    "java": ".java",
    "rust": ".rs",
}
"""The ending of a language's files, by its name in the Language Server Protocol."""


class Occurrence(NamedTuple):
    """A place in a text that follows the same text as the cursor."""

    length: int
    """The length of the match."""
    line: str
    """The rest of its line."""
    path: Path | None
    """Its file."""


class Folder(Protocol):
    """The files around the edited one; asking does not wait."""

    def occurrences(self, tail: str, path: Path | None) -> Sequence[Occurrence]:
        """The places in other files than `path` that follow the longest suffixes of `tail`, longest first."""

    def knows(self, name: str) -> bool:
        """Whether a name occurs in any of the files."""

    def surroundings(self, prefix: str, suffix: str, path: Path) -> Surroundings:
        """The file's path in the folder, and relevant excerpts of other files."""


@dataclass(frozen=True)
class OpenFile:
    """Another file open in the editor."""

    path: Path | None
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", normalise(self.text))


@dataclass(frozen=True)
class Place:
    """A place in a file: the text before and after it, and what else there is to look at."""

    prefix: str
    suffix: str = ""
    path: Path | None = None
    """The file's path, if it has one."""
    open_files: Sequence[OpenFile] = ()
    """Without this file, the most recently viewed first."""
    folder: Folder | None = None
    language: str = ""
    """Its name in the editor's protocol."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", normalise(self.prefix))
        object.__setattr__(self, "suffix", normalise(self.suffix))

    @property
    def ending(self) -> str:
        """The ending of the file's name in lower case, or of its language; "" if unknown."""
        return (self.path.suffix.lower() if self.path else "") or ENDINGS.get(self.language, "")


def normalise(text: str) -> str:
    """Normalise line breaks for models and index, and replace half surrogate pairs by `?`."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()
