"""`chatapp version`: the versions of chatapp, Python and the runtimes."""

import importlib.metadata
import json
import platform
import shlex
from argparse import Namespace

from chatapp import __version__
from chatapp.cli.arguments import Parser
from chatapp.settings import offline

RUNTIMES = ("onnxruntime", "openvino", "coremltools")


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp version [--licences | --bill | --check ADDRESS]"
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--check", metavar="ADDRESS", help="check the release page at ADDRESS for a newer version")
    ways.add_argument("--licences", action="store_true", help="list every dependency with its version and licence")
    ways.add_argument("--bill", action="store_true", help="print the same as a CycloneDX bill of materials")


def run(given: Namespace) -> None:
    """Print our version, Python's and the runtimes'; or the licences, the bill of materials, or the newest release."""
    from chatapp.text import about

    if given.bill:
        return print(json.dumps(about.bill(__version__), indent=2))
    if given.licences:
        return print(about.tell(__version__))
    if given.check is not None:
        return print(check(given.check))
    print(f"chatapp {__version__}")
    print(f"python {platform.python_version()}")
    for name in RUNTIMES:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed")


def check(address: str) -> str:
    """Whether a newer release is at an address, and how to install it."""
    from chatapp.remote import releases

    offline.require_network("version --check")
    newest = releases.find_newest(address)
    if releases.numbers(newest) <= releases.numbers(__version__):
        return f"chatapp {__version__} is the newest version at {address}"
    return (
        f"chatapp {newest} is available (this is {__version__}); to verify and install it:\n"
        f"KEY=(the public key on the release page) sh install.sh {shlex.quote(address)}"
    )
