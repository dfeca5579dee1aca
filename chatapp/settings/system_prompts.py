"""Named system prompts: the built-in ones, and the user's text files in a folder."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from backends.suggest import suggest
from chatapp.text.errors import InputError
from chatapp.text.files import write_whole

ENDING = ".md"
LIMIT = 1 << 18
"""Maximum bytes of a system prompt."""
NAME = re.compile(r"[^\W_](?:[\w .+-]{0,48}[\w+-])?")
"""Letters, digits and a few marks, so that a name is never another folder, a stream or a hidden file."""

BUILT_IN = {
    "concise": "Answer in as few words as the question allows. No introduction, no summary, no apology. "
    "Say so in one sentence where you do not know.",
    "programmer": "You are an experienced programmer who helps a colleague. Give working code first, then what is not "
    "obvious about it in a few sentences. Name the version or library that the code needs. "
    "Ask where a requirement is missing instead of guessing.",
    "reviewer": "You review what you are given, code or text. List what is wrong or unclear, the gravest first, each "
    "with the place and a better version. Do not praise and do not repeat what is right.",
    "teacher": "You are a patient teacher. Explain step by step, from what is known to what is new, with one small "
    "example for each idea. End with a question that shows whether it was understood.",
    "translator": "Translate what the user writes into English, or into the language that the user names. "
    "Keep tone, names, numbers and formatting. Write nothing but the translation.",
}


class SystemPromptError(InputError):
    """A system prompt cannot be read or saved."""


@dataclass(frozen=True)
class Entry:
    """A prompt of the library."""

    name: str
    built_in: bool
    """Whether it is built in and not hidden by a file of the user."""


def entries(folder: Path) -> list[Entry]:
    """The library by name; a user's file hides the built-in prompt of the same name."""
    try:
        files = {file.removesuffix(ENDING) for file in os.listdir(folder) if file.endswith(ENDING)}
    except (FileNotFoundError, NotADirectoryError):
        files = set()
    except OSError as error:
        raise SystemPromptError(f"cannot read the system prompts in {folder}: {error.strerror or error}") from error
    names = {name for name in files if _usable(name)} | BUILT_IN.keys()
    return [Entry(name, name not in files) for name in sorted(names, key=str.casefold)]


def read(folder: Path, name: str) -> str:
    """The system prompt of this name, without surrounding white space."""
    path = _path(folder, name)
    try:
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
        if len(content) > LIMIT:
            raise SystemPromptError(f"the system prompt {path} is larger than {LIMIT >> 10} kB; shorten it")
        return content.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except (FileNotFoundError, NotADirectoryError):
        if name in BUILT_IN:
            return BUILT_IN[name]
        names = [entry.name for entry in entries(folder)]
        hint = suggest(name, names, f"choose from {', '.join(names)}")
        raise SystemPromptError(f"unknown system prompt {name!r}; {hint}") from None
    except UnicodeDecodeError as error:
        raise SystemPromptError(f"the system prompt {path} is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise SystemPromptError(f"cannot read the system prompt {path}: {error.strerror or error}") from error


def save(folder: Path, name: str, text: str) -> str:
    """Save a system prompt, replacing one of the same name; returns the normalised name."""
    name = " ".join(name.split())
    path, text = _path(folder, name), text.strip()
    if not text:
        raise SystemPromptError("the system prompt is empty; write one before you save it")
    if len(text.encode("utf-8", "replace")) > LIMIT:
        raise SystemPromptError(f"the system prompt is larger than {LIMIT >> 10} kB; shorten it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text + "\n")
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SystemPromptError(f"cannot write the system prompt {path}: {reason or error}") from error
    return name


def delete(folder: Path, name: str) -> None:
    """Delete the user's prompt of this name; a built-in one it hid is visible again."""
    path = _path(folder, name)
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        built_in = name in BUILT_IN
        what = (
            f"the system prompt {name!r} is built in and cannot be changed"
            if built_in
            else f"unknown system prompt {name!r}"
        )
        raise SystemPromptError(what) from None
    except OSError as error:
        raise SystemPromptError(f"cannot delete the system prompt {path}: {error.strerror or error}") from error


def resolve(folder: Path, text: str) -> str:
    """`@NAME` gives the saved prompt of that name, any other text itself."""
    return read(folder, text[1:]) if text.startswith("@") else text


def is_own(folder: Path, name: str) -> bool:
    """Whether the user has a file of this name."""
    return _usable(name) and (folder / f"{name}{ENDING}").is_file()


def _usable(name: str) -> bool:
    from model_store.models import DEVICES

    return bool(NAME.fullmatch(name)) and not DEVICES.fullmatch(name)


def _path(folder: Path, name: str) -> Path:
    if not _usable(name):
        raise SystemPromptError(
            f"{name!r} is not a name for a system prompt; use up to 50 letters, digits, spaces, - _ + and dots"
        )
    return folder / f"{name}{ENDING}"
