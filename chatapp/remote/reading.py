"""Careful access to the JSON that servers send, which may have any shape."""

import json
from collections.abc import Mapping
from typing import Any

from chatapp.remote.errors import RemoteError

Json = dict[str, Any]  # Any: JSON


def parse_object(data: str) -> Json:
    """The JSON object of an event; RemoteError if it is invalid or reports an error."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteError("the server stopped in the middle of an event, or sent invalid JSON") from error
    if not isinstance(found, dict):
        raise RemoteError("the server sent an event that is not a JSON object")
    if problem := found.get("error") or (found.get("object") == "error" and found):
        said = problem.get("message", problem) if isinstance(problem, dict) else problem
        raise RemoteError(f"the server failed: {' '.join(str(said).split())[:300]}")
    return found


def text_in(found: Mapping[str, Any], *names: str) -> str:  # Any: JSON
    """The first text under one of these names; empty if there is none."""
    return next((value for name in names if isinstance(value := found.get(name), str)), "")


def count_in(found: object, *names: str) -> int | None:
    """The non-negative integer at this path of names; None if there is none."""
    for name in names:
        found = as_object(found).get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def as_number(value: object) -> float | None:
    """The value if it is a number, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_object(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_rows(value: object) -> list[Json] | None:
    """The objects in a list; None if the value is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else None


def object_in(found: object, name: str) -> Json:
    """The object under this name; empty if there is none."""
    return as_object(as_object(found).get(name))


def rows_in(found: object, name: str) -> list[Json] | None:
    """The objects of the list under this name; None if there is no list."""
    return as_rows(as_object(found).get(name))
