"""`chatapp version`: the versions of chatapp, Python and the runtimes."""

import importlib.metadata
import json
import platform
from argparse import Namespace

from chatapp import __version__
from chatapp.cli.arguments import Parser

RUNTIMES = ("onnxruntime", "openvino", "coremltools")


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.add_argument("--licences", action="store_true", help="tell every part of chatapp, its version and licence")
    parser.add_argument("--bill", action="store_true", help="the same for programs: a CycloneDX bill of materials")


def run(given: Namespace) -> int:
    """Print our version, Python's, and those of the runtimes that are installed; or all there is to tell of parts."""
    from chatapp.text import about

    if given.bill:
        print(json.dumps(about.bill(__version__), indent=2))
        return 0
    if given.licences:
        print(about.tell(__version__))
        return 0
    print(f"chatapp {__version__}")
    print(f"python {platform.python_version()}")
    for name in RUNTIMES:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")
    return 0
