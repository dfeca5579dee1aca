"""What a model may be told of a file besides its text: where it stands, and what other files say."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Excerpt:
    """Another file of the repository, or a part of one."""

    path: str
    """In the repository, with slashes."""
    text: str


@dataclass(frozen=True)
class Surroundings:
    """Where a file stands in a repository, and what other files of that say."""

    repository: str
    """Its name."""
    path: str
    """The file's own, in the repository, with slashes."""
    excerpts: Sequence[Excerpt] = ()
    """Of other files, those that matter most first."""


Around = Surroundings | None
"""What stands around a file, where that is known."""
