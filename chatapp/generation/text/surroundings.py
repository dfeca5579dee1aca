"""What a model may be told about a file: its path, and excerpts of other files."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Excerpt:
    """Another file of the repository, or a part of one."""

    path: str
    """Its path in the repository, with slashes."""
    text: str


@dataclass(frozen=True)
class Surroundings:
    """A file's place in a repository, and excerpts of the repository's other files."""

    repository: str
    """Its name."""
    path: str
    """The file's path in the repository, with slashes."""
    excerpts: Sequence[Excerpt] = ()
    """The most relevant first."""


Around = Surroundings | None
"""The surroundings of a file, if known."""
