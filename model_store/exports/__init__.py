"""Exports: write a model in the form that other programs load; each target is a module here or in `chatapp.deploy`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from backends import Progress
from model_store.errors import StoreError
from model_store.models import StoredModel

if TYPE_CHECKING:  # help pages do without numpy
    from backends.decoder import Decoder, Weights
    from model_store.checkpoint.checkpoint import Checkpoint, Config
    from model_store.checkpoint.weights import Family


class ExportError(StoreError):
    """A model that a target cannot have, or an unknown option."""


def option(default: Any, help: str, *, choices: Sequence[str] = (), metavar: str = "") -> Any:
    """A field of a target's options; Any, since a field stands for its default."""
    return field(default=default, metadata={"help": help, "choices": tuple(choices), "metavar": metavar})


@dataclass(frozen=True)
class Finding:
    """A part of an export that was compared with ours, or tried."""

    what: str
    passed: bool | None
    """None if it could not be tried here."""
    figure: str
    """How close it was to what was expected, in words."""


@dataclass(frozen=True)
class Source:
    """A model to export."""

    model: StoredModel
    tokenizer: Path
    """Its tokenizer.json."""

    @property
    def folder(self) -> Path:
        """The checkpoint's folder."""
        return self.model.folder

    @cached_property
    def _opened(self) -> "tuple[Checkpoint, Family, Decoder]":
        from model_store.convert import open_checkpoint

        return open_checkpoint(self.folder)

    @property
    def decoder(self) -> "Decoder":
        """Its decoder."""
        return self._opened[2]

    @property
    def config(self) -> "Config":
        """The fields of config.json."""
        return self._opened[0].config

    def weights(self, precision: str = "f32", on_progress: Progress | None = None) -> "Weights":
        """Its canonical weights, prepared for rounding to `precision`."""
        from model_store.checkpoint.weights import Canonical
        from model_store.convert import Watched, kept

        checkpoint, family, decoder = self._opened
        weights = kept(checkpoint, Canonical(checkpoint, family, decoder), precision)
        return Watched(weights, on_progress, "exporting") if on_progress else weights


class Target(Protocol):
    """What a target's module defines; slow imports are inside its functions."""

    SUMMARY: str
    """What loads it, for the help page."""
    Options: type[Any]
    """A frozen dataclass whose fields are made by `option`; Any, since each target has its own."""

    def refuse(self, source: Source, options: Any) -> None:
        """Raise ExportError that names what the target cannot have, before anything is written."""

    def write(self, source: Source, folder: Path, options: Any, on_progress: Progress | None = None) -> None:
        """Write the export to an empty folder."""

    def check(self, source: Source, folder: Path, options: Any) -> list[Finding]:
        """Load what was written, and compare it with ours."""
