"""Copy a text for pasting elsewhere, and say truthfully where it is."""

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from chatapp.text.files import write_whole

Way = Literal["clipboard", "tmux", "terminal", "file"]

TERMINAL_LIMIT: Final = 74_000
"""Most bytes for terminals: many drop sequences of more than 100 kB, and base64 adds a third."""
DEAF: Final = {"", "dumb", "linux"}
"""Terminals, by TERM, without a clipboard."""


@dataclass(frozen=True)
class Copied:
    """Where a text went."""

    way: Way
    path: Path | None = None

    def __str__(self) -> str:
        """The sentence for the user."""
        return {
            "clipboard": "Copied.",
            "tmux": "Copied to tmux's buffer, and to the clipboard if the terminal allows it.",
            "terminal": "Sent to the terminal's clipboard.",
            "file": f"No clipboard here; saved as {self.path}.",
        }[self.way]


def copy(
    text: str, osc52: Callable[[str], object], folder: Path, environment: Mapping[str, str] = os.environ
) -> Copied:
    """Copy by the first way that works: the system's clipboard, tmux, the terminal, a file in `folder`.

    May wait for other programs, so call it in a thread; `osc52` is called in the same.
    """
    text = text.encode(errors="replace").decode()  # surrogates cannot be encoded
    if to_system(text, environment):
        return Copied("clipboard")
    if "TMUX" in environment:  # by default tmux drops what a program sends to the terminal's clipboard
        return Copied("tmux") if to_tmux(text, environment) else to_file(text, folder)
    if environment.get("TERM", "") not in DEAF and len(text.encode()) <= TERMINAL_LIMIT:
        osc52(text)
        return Copied("terminal")
    return to_file(text, folder)


def to_system(text: str, environment: Mapping[str, str]) -> bool:
    """Copy to this desktop's clipboard; returns whether it has the text now."""
    display = "DISPLAY" in environment or "WAYLAND_DISPLAY" in environment
    if "SSH_CONNECTION" in environment and not display:
        return False  # that would be the other machine's
    import pyperclip  # importing it looks for programs

    try:
        pyperclip.copy(text)
        return bool(pyperclip.paste().replace("\r\n", "\n") == text.replace("\r\n", "\n"))  # some only pretend to work
    except (pyperclip.PyperclipException, OSError, ValueError):
        return False


def to_tmux(text: str, environment: Mapping[str, str]) -> bool:
    """Copy to tmux; `-w` makes it pass the text on to its terminal."""
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode(),
            env=dict(environment),
            capture_output=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def to_file(text: str, folder: Path) -> Copied:
    """Write the text to a private file, replacing the previous one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "copied.txt"
    write_whole(path, text, mode=0o600)
    return Copied("file", path)


def code_blocks(text: str) -> list[str]:
    """The code in fenced blocks, in order, without the indentation of surrounding lists and quotes.

    A nested block is part of its outer one; a block that is never closed ends with the text.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 100})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return [token.content for token in parser.parse(text) if token.type == "fence"]
