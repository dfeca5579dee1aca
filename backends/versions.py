"""Versions of packages, without importlib.metadata, which takes some 20 ms of each start."""

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from backends.errors import BackendError


def pip_install(packages: str) -> str:
    """The command that installs packages beside chatapp; a frozen program takes none."""
    beside = " in a chatapp installed with pip: this one cannot add packages" if hasattr(sys, "frozen") else ""
    return f"pip install {packages}{beside}"


@cache
def version(name: str) -> str:
    """The version of an installed package, from the name of its metadata folder.

    Raises BackendError where it is not installed.
    """
    spec = find_spec(name)
    if spec and spec.origin:
        beside = Path(spec.origin).parents[1]
        for folder in beside.glob(f"{name}-*.dist-info"):
            return folder.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return read_version(name)


def read_version(name: str) -> str:
    """The version by importlib.metadata, for modules that a package of another name brings."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise BackendError(f"{name} is not installed; run: pip install {name}") from None
