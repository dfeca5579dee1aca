"""Runs a command in the user's shell and attaches its output, limited in time and size and safe to print."""

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from chatapp.conversation.attachments import block
from chatapp.text.child import Watch, apart, end_group
from chatapp.text.errors import InputError
from chatapp.text.printable import clean_paste

LARGEST = 256_000
"""Maximum bytes of output; a command that writes more is killed."""
LONGEST = 60.0
"""Maximum seconds a command may run."""
PAUSE = 0.02
"""Seconds between two checks whether to stop."""
CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""Terminal escape sequences (colours, titles, links); the text between them is kept."""


@dataclass(frozen=True)
class Output:
    """The output of a command, and how it ended."""

    command: str
    text: str
    """Without terminal escape sequences."""
    code: int | None
    """The exit code; None if it was stopped."""
    ending: str = ""
    """Why it was stopped, in words."""

    @property
    def told(self) -> str:
        """How it ended, in a few words."""
        return self.ending or f"exit code {self.code}"

    @property
    def attachment(self) -> str:
        """The output as part of a message: a heading and a fenced block."""
        command = " ".join(self.command.split())
        return block(f"$ {command} ({self.told})", self.text, language="")


def command_in(line: str) -> str | None:
    """The command of a line that begins with one `!`; None for any other text."""
    text = line.strip()
    if not text.startswith("!") or text.startswith("!!") or "\n" in text:
        return None
    return text[1:].strip() or None


def shell() -> list[str]:
    """The user's shell and its option for running a command."""
    if os.name == "nt":
        return [os.environ.get("COMSPEC", "cmd.exe"), "/c"]
    return [os.environ.get("SHELL") or "/bin/sh", "-c"]


def run(
    command: str, *, stopped: Callable[[], bool] = lambda: False, seconds: float = LONGEST, largest: int = LARGEST
) -> Output:
    """Run a command without input; the processes it started end with it."""
    process = start([*shell(), command])
    taken, end = bytearray(), time.monotonic() + seconds

    def read() -> None:
        assert process.stdout
        with process.stdout as pipe:
            while len(taken) <= largest and (piece := os.read(pipe.fileno(), 65_536)):
                taken.extend(piece)

    def look() -> str:
        if len(taken) > largest:
            return f"stopped after {largest:,} bytes of output"
        if stopped():
            return "cancelled"
        return f"stopped after {seconds:g} seconds" if time.monotonic() > end else ""

    reader = Thread(target=read, name="shell", daemon=True)  # a background child may keep the pipe open
    reader.start()
    try:
        with Watch(process, look, PAUSE) as watch:
            code = process.wait()
    finally:
        end_group(process)
    reader.join(1.0)
    ending = look() if len(taken) > largest else watch.reason
    text = plain(bytes(taken[:largest]).decode("utf-8", errors="replace"))
    return Output(command, text, None if ending else code, ending)


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in its own process group, so that it can be killed whole, and without a terminal."""
    none, both = subprocess.DEVNULL, subprocess.STDOUT
    try:
        return subprocess.Popen(words, stdin=none, stdout=subprocess.PIPE, stderr=both, **apart())
    except OSError as error:
        raise InputError(f"cannot start {words[0]}: {(error.strerror or str(error)).lower()}") from error


def plain(text: str) -> str:
    """The text without escape sequences; of a line overwritten with carriage returns, only the last version."""
    lines = CONTROLS.sub("", text).replace("\r\n", "\n").split("\n")
    return clean_paste("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)).strip("\n")
