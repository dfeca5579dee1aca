"""Models that others have exported for a runtime, and the file that says where each is."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from backends import BackendError

FILE = "foreign.json"
PRECISION = "exported"
"""What stands for the precision of an export: whatever its maker chose."""


@dataclass(frozen=True)
class Prebuilt:
    """An export in the place of a lowered decoder."""

    graph: str
    """The path of the runtime's file."""
    context_length: int


@dataclass(frozen=True)
class Facts:
    """The facts that an export tells of itself."""

    parameters: int
    vocab_size: int
    capacity: int | None = None
    """Tokens that it has room for; None where that is its publisher's to say."""


def write(folder: Path, prebuilt: Prebuilt) -> None:
    """Put an export in the place of a lowered decoder."""
    (folder / FILE).write_text(json.dumps(asdict(prebuilt)), "utf-8")


def read(folder: Path) -> Prebuilt | None:
    """The export that `folder` stands for; None where that holds a decoder that was lowered here."""
    if not (folder / FILE).is_file():
        return None
    try:
        return Prebuilt(**json.loads((folder / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BackendError(f"{folder / FILE} cannot be read ({error}); delete the folder {folder}") from error


def check_inputs(graph: Path, names: set[str], required: set[str], known: set[str]) -> None:
    """Refuse a graph that lacks a required input or has an unknown one."""
    if missing := required - names:
        raise BackendError(
            f"{graph} has no input {' or '.join(sorted(missing))}, so it cannot continue a text; use an "
            "export with a cache (text-generation-with-past)"
        )
    if unknown := names - required - known:
        raise BackendError(f"{graph} needs the input {' and '.join(sorted(unknown))}, which is unknown here")
