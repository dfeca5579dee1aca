"""coremltools, imported without what it prints; the other modules take it from here."""

import logging
import warnings
from collections.abc import Iterable
from typing import Any

from backends import BackendError

logging.getLogger("coremltools").setLevel(logging.CRITICAL)  # what cannot be done is raised as well
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools
        from coremltools.converters.mil import Builder as mb
        from coremltools.converters.mil.mil import Function, types
        from coremltools.converters.mil.mil.passes import pass_pipeline
        from coremltools.converters.mil.mil.program import StateTensorPlaceholder
        from coremltools.converters.mil.mil.types.type_mapping import string_to_nptype
        from coremltools.proto import MIL_pb2, Model_pb2
except ImportError as error:
    raise BackendError(f"coremltools cannot be imported ({error}); run: pip install coremltools") from error

__all__ = [
    "MIL_pb2", "Function", "Model_pb2", "Program", "StateTensorPlaceholder", "Var", "coremltools", "mb",
    "string_to_nptype", "types",
]  # fmt: skip

Var = Any
"""A value of a graph under construction; coremltools has no types."""


class Program(coremltools.converters.mil.mil.Program):  # type: ignore[misc]  # coremltools has no types
    """One that coremltools neither validates after each pass nor writes into its log: half the time of a conversion."""

    def validate(self, check_essential_scope: bool = False) -> None:
        """Nothing: `check` does it."""

    def check(self) -> None:
        """Raise for a program that is not well-formed."""
        super().validate(check_essential_scope=True)

    def __str__(self) -> str:
        return "a program"


def without_bar(passes: Iterable[str], **how: object) -> Iterable[str]:
    """The passes, as they are, for what would draw a progress bar of them."""
    return passes


pass_pipeline.tqdm = without_bar
