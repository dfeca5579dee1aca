"""The errors of the store, in words for the user."""

import json

from backends.errors import UserError


class StoreError(UserError):
    """The model store cannot do what was asked.

    StoreError
    ├── HubUnreachable
    ├── ModelNotFound
    └── UnsupportedCheckpoint
    """


class HubUnreachable(StoreError):
    """The Hub cannot be reached."""


class ModelNotFound(StoreError):
    """There is no model of this name, and no checkpoint at this path."""


class UnsupportedCheckpoint(StoreError):
    """The checkpoint is damaged, or holds something that its family's table does not explain."""


def shown(value: object) -> str:
    """A value from a file as JSON, shortened for messages."""
    try:
        text = json.dumps(value)
    except ValueError:
        return "a number of very many digits"
    return text if len(text) <= 40 else f"{text[:40]}..."


def cut(name: object) -> str:
    """A name from a file in quotes, shortened for messages."""
    text = str(name)
    return repr(name) if len(text) <= 40 else f"{text[:40]!r}..."
