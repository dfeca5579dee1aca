"""The location of a model in the store: one of the store's folders, a name in it, and the paths that follow."""

from dataclasses import dataclass
from pathlib import Path

from model_store.disk import own

MANIFEST = "model.json"
CHECKPOINTS = "checkpoints"
"""Of a folder of the store: the checkpoints that were pulled."""
IMPORTED = "checkpoint"
"""Of a model's folder: its checkpoint, where that was imported or copied. All else there can be made again."""


@dataclass(frozen=True)
class Location:
    """The location of a model in one folder of the store; its paths raise StoreError where a link leads out of it."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """The folder of what is made for the model: manifest, variants, tokenizer."""
        return own(self.root, self.name)

    @property
    def removed(self) -> Path:
        """The same while it is being removed."""
        return own(self.root, f".{self.name}.gone")

    @property
    def manifest(self) -> Path:
        """The file that says what the model is, without which it is none."""
        return self.folder / MANIFEST

    @property
    def imported(self) -> Path:
        """The checkpoint, where it was imported or copied."""
        return own(self.root, self.name, IMPORTED)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, where it was pulled."""
        return own(self.root, CHECKPOINTS, self.name)

    @property
    def partial(self) -> Path:
        """The same while it is being fetched: whole files named after their digests, and parts of others."""
        return own(self.root, CHECKPOINTS, f".{self.name}.partial")

    @property
    def replaced(self) -> Path:
        """The revision before, while the next one takes its name."""
        return own(self.root, CHECKPOINTS, f".{self.name}.old")

    @property
    def removed_checkpoint(self) -> Path:
        """The checkpoint while it is being removed."""
        return own(self.root, CHECKPOINTS, f".{self.name}.gone")
