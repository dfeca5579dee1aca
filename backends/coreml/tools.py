"""Import coremltools without its output; the other modules import it from here."""

import logging
import warnings
from collections.abc import Iterable
from typing import Any

from backends import BackendError

logging.getLogger("coremltools").setLevel(logging.CRITICAL)  # errors are raised as well
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
"""A value of a graph under construction; coremltools is untyped."""


class Program(coremltools.converters.mil.mil.Program):  # type: ignore[misc]  # coremltools has no types
    """A program that is neither validated after each pass nor logged: that halves a conversion's time."""

    def validate(self, check_essential_scope: bool = False) -> None:
        """Do nothing; `check` validates."""

    def check(self) -> None:
        """Raise if the program is not well-formed."""
        super().validate(check_essential_scope=True)

    def __str__(self) -> str:
        return "a program"


def without_bar(passes: Iterable[str], **how: object) -> Iterable[str]:
    """Replaces tqdm: the passes, without a progress bar."""
    return passes


pass_pipeline.tqdm = without_bar
