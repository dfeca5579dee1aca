"""`chatapp login`: save a token of the Hugging Face Hub."""

import getpass
import sys
from argparse import Namespace
from collections.abc import Callable

from chatapp.cli.arguments import Parser, read_secret
from chatapp.settings import offline
from chatapp.text.printable import printable

DETAILS = "The token is read without echo, or from standard input, and saved where huggingface_hub keeps it."


def add(parser: Parser) -> None:
    """Add no arguments."""


def run(given: Namespace, read: Callable[[str], str] = getpass.getpass) -> None:
    """Ask for a token, check it, and save it where huggingface_hub looks for it."""
    from model_store.hub import hub

    offline.require_network("login")
    place = hub.site()
    if sys.stdin.isatty():
        print(f"Create a read token at {place.endpoint}/settings/tokens", file=sys.stderr)
    print(f"logged in as {printable(hub.login(read_secret('token', read)))}")
