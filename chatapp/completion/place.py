"""A place in code at which something may be offered, and what can be seen from there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from chatapp.generation import Surroundings

BEFORE, AFTER = 1_000_000, 200_000
"""The characters before and after a place that are looked at; what is farther away is not."""
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
"""How files of a language end, by its name in the Language Server Protocol."""


class Occurrence(NamedTuple):
    """A place where a text ends as the text before the cursor does."""

    length: int
    """As many characters before it are the same."""
    line: str
    """What follows it, up to the line's end."""
    path: Path | None
    """The file it is in."""


class Folder(Protocol):
    """The files around the one that is edited, to be asked without waiting."""

    def occurrences(self, tail: str, path: Path | None) -> Sequence[Occurrence]:
        """Where the longest ends of `tail` stand in other files than `path`, the longest first; few where many are."""

    def knows(self, name: str) -> bool:
        """Whether a name stands in any of the files."""

    def surroundings(self, prefix: str, suffix: str, path: Path) -> Surroundings:
        """What a model may be told of the folder: where the file stands, and what of others is like the lines there."""


@dataclass(frozen=True)
class OpenFile:
    """Another text that is open in the editor."""

    path: Path | None
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", normalise(self.text))


@dataclass(frozen=True)
class Place:
    """A place in a file: the text before it and after it, and what else there is to look at."""

    prefix: str
    suffix: str = ""
    path: Path | None = None
    """The file's, where it has one."""
    open_files: Sequence[OpenFile] = ()
    """Without this one, the one looked at last first."""
    folder: Folder | None = None
    language: str = ""
    """As an editor names it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", normalise(self.prefix))
        object.__setattr__(self, "suffix", normalise(self.suffix))

    @property
    def ending(self) -> str:
        """The ending of the file's name, in small letters, else that of its language; empty where none is known."""
        return (self.path.suffix.lower() if self.path else "") or ENDINGS.get(self.language, "")


def normalise(text: str) -> str:
    """A text with the line breaks that models and the folder know, and `?` for half a surrogate pair."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()
