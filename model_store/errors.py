"""What can go wrong with a model, in words for the user."""


class StoreError(Exception):
    """The model store cannot do what was asked.

    StoreError
    ├── ModelNotFound
    └── UnsupportedCheckpoint
    """


class ModelNotFound(StoreError):
    """No model has this name, and no checkpoint lies at this path."""


class UnsupportedCheckpoint(StoreError):
    """The checkpoint is damaged, or holds something that its family's table does not explain."""
