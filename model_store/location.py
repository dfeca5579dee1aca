"""Where a model is in the store: a store folder, a name in it, and the paths that follow."""

from dataclasses import dataclass
from pathlib import Path

from model_store.disk import own

MANIFEST = "model.json"
CHECKPOINTS = "checkpoints"
"""The folder, in a store folder, of checkpoints that were pulled."""
IMPORTED = "checkpoint"
"""The folder, in a model's, of a checkpoint that was copied; everything else there can be made again."""


@dataclass(frozen=True)
class Location:
    """A model's location in one store folder; paths raise StoreError if a link leads out of it."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """The folder of what is made for the model: manifest, variants, tokenizer."""
        return own(self.root, self.name)

    @property
    def removed(self) -> Path:
        """That folder while it is being removed."""
        return own(self.root, f".{self.name}.gone")

    @property
    def manifest(self) -> Path:
        """The manifest, without which there is no model."""
        return self.folder / MANIFEST

    @property
    def imported(self) -> Path:
        """The checkpoint, if it was copied."""
        return own(self.root, self.name, IMPORTED)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint, if it was pulled."""
        return own(self.root, CHECKPOINTS, self.name)

    @property
    def partial(self) -> Path:
        """The pulled checkpoint during download: whole files named by digest, and parts of others."""
        return own(self.root, CHECKPOINTS, f".{self.name}.partial")

    @property
    def replaced(self) -> Path:
        """The previous revision, while the next one takes its name."""
        return own(self.root, CHECKPOINTS, f".{self.name}.old")

    @property
    def removed_checkpoint(self) -> Path:
        """The checkpoint while it is being removed."""
        return own(self.root, CHECKPOINTS, f".{self.name}.gone")
