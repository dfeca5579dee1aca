"""`chatapp serve`: answer other programs in the protocols they speak."""

import argparse
import os
import re
import sys
from argparse import Namespace
from dataclasses import fields
from typing import TYPE_CHECKING

from chatapp.cli.arguments import Parser, add_placement, parse_number, parse_path, read_placement
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from chatapp.server.settings import ServerSettings

DETAILS = """\
Each MODEL is opened at start and stays open; the first answers requests that name no model. All other models on this
machine are opened when a request names them.

The server listens on this machine only, unless --host says otherwise; then each request needs a key.
What it supports and refuses: docs/server.md.
"""
CALLED = {
    "origins": "allow_origin",
    "hosts": "allow_host",
    "certificate": "tls_cert",
    "private_key": "tls_key",
    "places": "parallel",
    "patience": "queue_timeout",
}
"""The options of the fields of `ServerSettings` that have another name."""
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def add(parser: Parser) -> None:
    """Add the arguments."""
    parser.usage = "chatapp serve [MODEL ...] [options]"
    where = parser.add_argument_group("address")
    add_address(where)
    who = parser.add_argument_group("access")
    who.add_argument("--keys", metavar="FILE", type=parse_path, help="keys, one per line; each request needs one")
    who.add_argument("--allow-origin", metavar="URL", action="append", default=[], help="web origin; repeatable")
    who.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="host name; repeatable")
    much = parser.add_argument_group("limits")
    much.add_argument("--parallel", metavar="N", type=parse_number, default=8, help="requests at once (default: 8)")
    much.add_argument("--queue", metavar="N", type=parse_number, default=64, help="requests waiting (default: 64)")
    much.add_argument(
        "--queue-timeout", metavar="S", type=parse_seconds, default=120.0, help="time in the queue (default: 120s)"
    )
    much.add_argument("--timeout", metavar="S", type=parse_seconds, default=600.0, help="per answer (default: 10m)")
    much.add_argument(
        "--max-body", metavar="SIZE", type=parse_size, default=16_000_000, help="request size (default: 16M)"
    )
    much.add_argument("--max-prompt", metavar="N", type=parse_number, help="prompt tokens (default: the context)")
    much.add_argument("--max-tokens", metavar="N", type=parse_number, help="answer tokens (default: the context)")
    much.add_argument("--memory", metavar="SIZE", type=parse_size, help="for all models (default: 60 %% of the memory)")
    much.add_argument("--keep-alive", metavar="S", type=parse_seconds, default=1800.0, help="if idle (default: 30m)")
    much.add_argument(
        "--drain",
        metavar="S",
        type=parse_seconds,
        default=30.0,
        help="time for open answers at shutdown (default: 30s)",
    )
    parser.add_argument("--log-requests", action="store_true", help="log prompts")
    add_placement(parser)


def add_address(group: argparse._ArgumentGroup) -> None:
    """Add the options for where a server listens."""
    group.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="listen address (default: 127.0.0.1)")
    group.add_argument("--port", metavar="N", type=parse_port, default=11434, help="0: any free (default: 11434)")
    group.add_argument("--tls-cert", metavar="FILE", type=parse_path, help="serve over TLS with this certificate")
    group.add_argument("--tls-key", metavar="FILE", type=parse_path, help="the certificate's private key")


def name_words(parser: Parser, given: Namespace, words: list[str]) -> list[str]:
    """Assign the models from the words; there is no surplus."""
    given.models = words
    return []


def parse_port(text: str) -> int:
    """Parse a port."""
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse a duration (90, 90s, 5m, 1h) to seconds."""
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smh]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, such as 90s, 5m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def parse_size(text: str) -> int:
    """Parse a size (500M, 4G) to bytes."""
    found = re.fullmatch(r"(\d{1,15})([KMG]?)B?", text.upper())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 500M or 4G")
    return int(found[1]) * UNITS[found[2]]


def read_server(given: Namespace) -> "ServerSettings":
    """The server's settings; raises for invalid ones."""
    from chatapp.server.settings import ServerSettings, read_keys

    told = {field.name: getattr(given, CALLED.get(field.name, field.name)) for field in fields(ServerSettings)}
    lists = {name: tuple(told[name]) for name in ("origins", "hosts", "models")}
    return ServerSettings(**told | lists | {"keys": read_keys(given.keys) if given.keys else ()})


def run(given: Namespace) -> int:
    """Serve until told to end; returns by ending the process."""
    settings = read_server(given)
    from chatapp.server.start import serve

    code = serve(Workspace(), settings, read_placement(given))
    sys.stderr.flush()
    os._exit(code)  # a runtime that is still computing or loading would crash during Python's shutdown
