"""Let the user edit a text in their editor."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from chatapp.text.errors import InputError

USUAL = ("nano", "vi", "notepad")
"""Tried in this order if none is configured."""


def command(environment: Mapping[str, str]) -> list[str]:
    """The editor and its arguments: VISUAL, EDITOR, or a usual one."""
    for variable in ("VISUAL", "EDITOR"):
        if chosen := environment.get(variable, "").strip():
            try:
                words = shlex.split(chosen, posix=os.name != "nt")
            except ValueError as error:
                raise InputError(f"{variable} is not a command: {chosen!r} ({str(error).lower()})") from error
            if not shutil.which(words[0]):
                raise InputError(f"editor {words[0]!r} not found; check {variable}")
            return words
    if found := next(filter(shutil.which, USUAL), None):
        return [found]
    raise InputError("no editor; set VISUAL or EDITOR")


def edit(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The edited text; InputError, with nothing changed, if that fails.

    The terminal must be free for the editor. The file is private, and deleted afterwards.
    """
    words = command(environment)
    with tempfile.TemporaryDirectory(prefix="chatapp-") as folder:  # its mode is 0700
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        try:
            with interrupts_ignored():
                code = subprocess.run([*words, str(file)], check=False).returncode
        except OSError as error:
            raise InputError(f"cannot start {words[0]}: {(error.strerror or str(error)).lower()}") from error
        if code:
            raise InputError(f"{Path(words[0]).name} exited with code {code}; your text is unchanged")
        try:
            written = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(f"{Path(words[0]).name} saved no text; yours is unchanged") from error
    return written if text.endswith("\n") else written.removesuffix("\n")  # most editors add a last line break


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Context in which Ctrl+C is left to the editor."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)  # a child would inherit SIG_IGN
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
