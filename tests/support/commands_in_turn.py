"""Run commands one after the other in one process: python commands_in_turn.py FILE, a list of them in JSON.

The last line printed is the exit codes, as JSON. The process ends when its standard input does.
"""

import io
import json
import sys
from pathlib import Path
from typing import TextIO

from chatapp.cli.main import main

INPUT = b"secret\n"
"""What every command finds on its standard input: a text, and the token of a loopback hub."""


def code_of(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    sys.stdin = io.TextIOWrapper(io.BytesIO(INPUT))
    try:
        return main(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)


def in_turn(commands: list[list[str]], waiting: TextIO) -> None:
    """Run all commands, print their exit codes, and stay."""
    codes = [code_of(arguments) for arguments in commands]
    print(json.dumps(codes), flush=True)
    waiting.read()


if __name__ == "__main__":
    in_turn(json.loads(Path(sys.argv[1]).read_text()), sys.stdin)
