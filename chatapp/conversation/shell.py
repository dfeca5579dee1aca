"""A command in the user's shell, for a message: bounded in time and size, stopped when wanted, harmless to print."""

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
"""Bytes of output that are taken; a command that writes more is ended."""
LONGEST = 60.0
"""Seconds that a command may take."""
PAUSE = 0.02
"""Seconds between two looks at whether to stop."""
CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""What terminals obey: colours, titles, links; the text between them is what a reader wants."""


@dataclass(frozen=True)
class Output:
    """What a command wrote, and how it ended."""

    command: str
    text: str
    """Without what terminals obey."""
    code: int | None
    """None where it was ended before its time."""
    ending: str = ""
    """Why it was ended: what was wrong, in words."""

    @property
    def told(self) -> str:
        """How it ended, in a few words."""
        return self.ending or f"exit code {self.code}"

    @property
    def attachment(self) -> str:
        """As it goes into a message: the command as heading, and a fenced block."""
        command = " ".join(self.command.split())
        return block(f"$ {command} ({self.told})", self.text, language="")


def command_in(line: str) -> str | None:
    """The command of a line that begins with one exclamation mark, or None where it is a text for the model."""
    text = line.strip()
    if not text.startswith("!") or text.startswith("!!") or "\n" in text:
        return None
    return text[1:].strip() or None


def shell() -> list[str]:
    """The user's shell, up to the command."""
    if os.name == "nt":
        return [os.environ.get("COMSPEC", "cmd.exe"), "/c"]
    return [os.environ.get("SHELL") or "/bin/sh", "-c"]


def run(
    command: str, *, stopped: Callable[[], bool] = lambda: False, seconds: float = LONGEST, largest: int = LARGEST
) -> Output:
    """Run a command without input; what it starts ends with it."""
    process = start([*shell(), command])
    taken, end = bytearray(), time.monotonic() + seconds

    def read() -> None:
        assert process.stdout
        with process.stdout as pipe:
            while len(taken) <= largest and (piece := os.read(pipe.fileno(), 65_536)):
                taken.extend(piece)

    def look() -> str:
        if len(taken) > largest:
            return f"ended after {largest:,} bytes of output"
        if stopped():
            return "cancelled"
        return f"ended after {seconds:g} seconds" if time.monotonic() > end else ""

    reader = Thread(target=read, name="shell", daemon=True)  # what it leaves in the background may hold the pipe open
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
    """Start a command in a group of its own, that can be ended whole, and with no terminal to ask at."""
    none, both = subprocess.DEVNULL, subprocess.STDOUT
    try:
        return subprocess.Popen(words, stdin=none, stdout=subprocess.PIPE, stderr=both, **apart())
    except OSError as error:
        raise InputError(f"{words[0]} does not start: {(error.strerror or str(error)).lower()}") from error


def plain(text: str) -> str:
    """The text as one would read it on a terminal, without what terminals obey; of a line written over, the last."""
    lines = CONTROLS.sub("", text).replace("\r\n", "\n").split("\n")
    return clean_paste("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)).strip("\n")
