"""`chatapp lsp`: complete code in an editor."""

import os
import signal
import sys
from argparse import Namespace

from chatapp.cli.arguments import Parser
from chatapp.cli.printing import note
from chatapp.text.signals import ENDING
from chatapp.workspace import Workspace

DETAILS = """\
The editor talks to it over standard input and output, in the Language Server Protocol: textDocument/inlineCompletion,
or textDocument/completion if the editor lacks that. To set up an editor: chatapp editor. Settings: docs/commands.md.
"""


def add(parser: Parser) -> None:
    """Add the arguments: only --stdio, which some editors pass."""
    parser.add_argument("--stdio", action="store_true", help="the default; accepted because some editors pass it")


def run(given: Namespace) -> int:
    """Serve the editor until it disconnects."""
    from chatapp.lsp.streams import claim_output

    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_DFL)  # a thread waiting for input would keep Python from exiting
    if sys.stdin.isatty():
        note("Waiting for an editor; to set one up: chatapp editor. Ctrl+C quits.")
    output = claim_output()
    from chatapp.lsp.server import Server, serve

    code = serve(Server(Workspace(shares=True)), sys.stdin.buffer, output)
    sys.stderr.flush()
    os._exit(code)  # a runtime that is still computing or loading would crash during Python's shutdown
