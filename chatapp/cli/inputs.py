"""Read what the user gives, and refuse what no model can read, before one is loaded."""

import sys
from pathlib import Path

from chatapp.text.errors import InputError


def read_text(file: str) -> str:
    """The text of a file, or of standard input for `-`."""
    name = "standard input" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}; check the path") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start + 1:,}); convert it first") from error
    if "\0" in text:
        raise InputError(f"{name} is binary (a zero at byte {content.index(0) + 1:,}); give text")
    return text


def check_prompt(prompt: str) -> None:
    """Refuse a prompt that no model can read, before one is loaded."""
    if not prompt:
        raise InputError("the prompt is empty; write something for the model to answer")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the prompt is not UTF-8 text (character {error.start + 1:,}); convert it first") from error
