"""`chatapp version`: the versions of chatapp, Python and the runtimes."""

import importlib.metadata
import platform
from argparse import Namespace

from chatapp import __version__
from chatapp.cli.arguments import Parser

RUNTIMES = ("onnxruntime", "openvino", "coremltools")


def add(parser: Parser) -> None:
    """It takes no arguments."""


def run(given: Namespace) -> int:
    """Print our version, Python's, and those of the runtimes that are installed."""
    print(f"chatapp {__version__}")
    print(f"python {platform.python_version()}")
    for name in RUNTIMES:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")
    return 0
