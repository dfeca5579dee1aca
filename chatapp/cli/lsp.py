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
An editor starts this command and talks to it over standard input and output, as the Language Server Protocol says:
textDocument/inlineCompletion, and textDocument/completion for editors without it.
What an editor can set: docs/commands.md. How each is set up: chatapp editor.
"""


def add(parser: Parser) -> None:
    """Add the arguments: only --stdio, which some editors pass."""
    parser.add_argument("--stdio", action="store_true", help="as it is anyway; some editors say so")


def run(given: Namespace) -> int:
    """Serve the editor until it disconnects."""
    from chatapp.lsp.streams import claim_output

    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_DFL)  # a thread waiting for input would keep Python from exiting
    if sys.stdin.isatty():
        note("An editor starts this and talks to it: chatapp editor tells how. Ctrl+C leaves.")
    output = claim_output()
    from chatapp.lsp.server import Server, serve

    code = serve(Server(Workspace(shares=True)), sys.stdin.buffer, output)
    sys.stderr.flush()
    os._exit(code)  # a runtime that is still computing or loading would crash during Python's shutdown
