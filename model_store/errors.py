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
    """Nothing answered where the Hub should be."""


class ModelNotFound(StoreError):
    """No model has this name, and no checkpoint lies at this path."""


class UnsupportedCheckpoint(StoreError):
    """The checkpoint is damaged, or holds something that its family's table does not explain."""


def shown(value: object) -> str:
    """A value of somebody's file as JSON spells it, and no more than its beginning."""
    try:
        text = json.dumps(value)
    except ValueError:
        return "a number of very many digits"
    return text if len(text) <= 40 else f"{text[:40]}..."


def cut(name: object) -> str:
    """A name of somebody's file in quotes, and no more than its beginning."""
    text = str(name)
    return repr(name) if len(text) <= 40 else f"{text[:40]!r}..."
