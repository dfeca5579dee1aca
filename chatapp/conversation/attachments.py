"""Files and folders that a message names by `@path`: find them, rank them, and put their text into the message."""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chatapp.text.errors import InputError
from chatapp.text.units import size as in_bytes

LARGEST: Final = 1_000_000
"""Bytes of the largest file that is taken."""
FOLDER_LIMIT: Final = 256_000
"""Bytes that the files of a folder may have together; the rest is only listed."""
LISTED: Final = 200
"""Files of a folder that are listed."""
MOST_FILES: Final = 2_000
"""Files of one folder that are looked at: one with very many hides no other."""
SKIPPED: Final = {"__pycache__", "node_modules"}
"""Folders that nobody means; hidden ones are skipped as well."""
SCATTERED: Final = 5
"""The kind, as `score` counts them, from which the letters of a query only occur somewhere in a path."""


@dataclass(frozen=True)
class Candidate:
    """A file, or a folder, that could be attached."""

    path: str
    """From the working directory on, with `/`; a folder ends with one."""
    size: int = 0


@dataclass(frozen=True)
class Scan:
    """What there is to attach."""

    candidates: tuple[Candidate, ...]
    complete: bool = True
    """Whether that is all: a very large tree is not walked to its end."""


@dataclass(frozen=True)
class Mention:
    """An `@path` in a text."""

    start: int
    end: int
    path: str


@dataclass(frozen=True)
class Attachment:
    """What an `@path` stood for when it was read."""

    path: str
    text: str
    """As it goes into the message: the path as heading, and a fenced block."""
    stamp: tuple[int, int]
    """When it was last changed, and its size: tells whether it is another one later."""
    left_out: int = 0
    """Files of the folder that are listed, or not even that, without their text."""


# Finding


def scan(root: Path, *, limit: int = 10_000, seconds: float = 2.0) -> Scan:
    """Text files and folders below `root`, nearest first, at most so many and for at most so long."""
    found: list[Candidate] = []
    queue, end = deque([""]), time.monotonic() + seconds
    complete = True
    while queue:
        inside, files = queue.popleft(), 0
        for entry in entries(root / inside):
            if len(found) >= limit or time.monotonic() > end:
                return Scan(tuple(found), complete=False)
            if entry.is_dir(follow_symlinks=False):
                queue.append(f"{inside}{entry.name}/")
                found.append(Candidate(f"{inside}{entry.name}/"))
            elif files == MOST_FILES:
                complete = False
            elif (size := text_size(Path(entry.path))) is not None:
                files += 1
                found.append(Candidate(inside + entry.name, size))
    return Scan(tuple(found), complete)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, by name, without what is hidden; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            named = [entry for entry in found if not entry.name.startswith(".") and entry.name not in SKIPPED]
    except OSError:
        return []
    # Those that are no UTF-8, or hold control characters, can be neither shown nor typed.
    told = (entry for entry in named if entry.name.isprintable() and '"' not in entry.name)
    return sorted(told, key=lambda entry: entry.name.casefold())


def text_size(path: Path) -> int | None:
    """The size of a text file that is not too large, None of anything else."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        with path.open("rb") as file:
            return None if b"\0" in file.read(1024) else found.st_size
    except OSError:
        return None


def rank(query: str, candidates: Sequence[Candidate], limit: int = 8) -> list[Candidate]:
    """The candidates that have the letters of the query in this order, in any case, the likeliest first."""
    wanted = query.casefold()
    if not wanted:
        near = sorted(candidates, key=lambda candidate: candidate.path.rstrip("/").count("/"))  # stable: by name within
        return near[:limit]
    letters = re.compile("".join(f"(?>.*?{re.escape(letter)})" for letter in wanted))  # takes each where it is first
    paths = ((candidate, candidate.path.casefold()) for candidate in candidates)
    fitting = [(score(wanted, path), path, candidate) for candidate, path in paths if letters.match(path)]
    return [found for _, _, found in sorted(fitting, key=lambda fit: fit[:2])[:limit]]


def score(query: str, path: str) -> tuple[int, int, int]:
    """Lower is likelier: the name itself, its beginning, the beginning of a word in it, the path, scattered letters."""
    name = path.rstrip("/").rpartition("/")[2]
    if query.rstrip("/") in (name, name.partition(".")[0], path.rstrip("/")):
        kind = 0
    elif name.startswith(query) or path.startswith(query):
        kind = 1
    elif re.search(rf"(?:^|[\W_]){re.escape(query)}", name):
        kind = 2
    elif query in name:
        kind = 3
    elif query in path:
        kind = 4
    else:
        rest = iter(name)
        kind = SCATTERED if all(letter in rest for letter in query) else SCATTERED + 1
    return kind, path.count("/"), len(path)


def is_guess(query: str, candidate: Candidate) -> bool:
    """Whether a candidate has only the letters of the query, and nowhere the word: any name fits some file so."""
    return bool(query) and score(query.casefold(), candidate.path.casefold())[0] >= SCATTERED


# Mentions

_MENTION: Final = re.compile(r'(?:(?<=[\s(\[{])|^)@(?:"([^"\n]+)"|([^\s"]+))', re.MULTILINE)
_AFTER: Final = ".,;:!?)]}'"
"""Punctuation that may follow a path without being part of it."""


def mentions(text: str, is_there: Callable[[str], bool]) -> Iterator[Mention]:
    """Every `@path` and `@"path with spaces"` that is there; any other `@word` is only text."""
    for found in _MENTION.finditer(text):
        path, end = found[1] or found[2], found.end()
        if found[2]:
            while not is_there(path) and path[-1:] in _AFTER and len(path) > 1:
                path, end = path[:-1], end - 1
        if is_there(path):
            yield Mention(found.start(), end, path)


def mention(path: str) -> str:
    """The path as it is written in a message."""
    return f'@"{path}"' if re.search(r"\s", path) or path[-1:] in _AFTER else f"@{path}"


def locate(path: str, root: Path) -> Path:
    """Where a path that somebody typed leads to; `~` is home, and `root` where it begins otherwise."""
    return root / os.path.expanduser(path)


def is_there(path: str, root: Path) -> bool:
    """Whether a path leads to a file or folder."""
    try:
        return locate(path, root).exists()
    except (OSError, ValueError):  # too long for a name, or a zero in it
        return False


def is_whole(path: str, root: Path) -> bool:
    """Whether a path leads to something that is no folder, so that nothing more need be typed."""
    return is_there(path, root) and not locate(path, root).is_dir()


# Reading


def attach(text: str, root: Path, known: Iterable[str] = ()) -> tuple[Attachment, ...]:
    """Everything that a text mentions, each once, as it is now; InputError where something cannot be taken.

    The paths in `known` were there while it was typed: one that is gone since would pass for a word.
    """
    for path in known:
        if mention(path) in text and not is_there(path, root):
            raise InputError(f"{path} is not there any more; take @{path} out, or put it back")
    paths = dict.fromkeys(found.path for found in mentions(text, lambda path: is_there(path, root)))
    return tuple(read(path, root) for path in paths)


def message(text: str, attachments: Sequence[Attachment]) -> str:
    """The text, and below it what is attached."""
    return "\n\n".join((text, *(attachment.text for attachment in attachments)))


def read(path: str, root: Path) -> Attachment:
    """A file, or a folder with its listing and its text files, as they are now."""
    place = locate(path, root)
    try:
        found = place.stat()
        stamp = found.st_mtime_ns, found.st_size
        if stat.S_ISDIR(found.st_mode):
            return read_folder(path, place, stamp)
        return Attachment(path, block(path, file_text(path, place)), stamp)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error


def file_text(path: str, place: Path) -> str:
    """The text of a file; InputError where it has none."""
    found = place.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is neither a file nor a folder")
    with place.open("rb") as file:
        content = file.read(LARGEST + 1)  # the size of a file that the system makes up, or that grows, tells nothing
    if len(content) > LARGEST:
        size = in_bytes(max(found.st_size, len(content)))
        raise InputError(f"{path} is too large to attach: {size}, at most {in_bytes(LARGEST)}")
    if b"\0" in content:
        raise InputError(f"{path} is not a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 (byte {error.start:,})") from error


def read_folder(path: str, place: Path, stamp: tuple[int, int]) -> Attachment:
    """The listing of a folder, and as many of its files as fit."""
    found = scan(place, limit=10 * LISTED)
    files = [candidate for candidate in found.candidates if not candidate.path.endswith("/")]
    folder, lines, texts, room = path.rstrip("/") or path, [], [], FOLDER_LIMIT
    for candidate in files[:LISTED]:
        text = None
        if candidate.size <= room:
            try:
                text = file_text(candidate.path, place / candidate.path)
            except (InputError, OSError):
                text = None
        if text is None:
            lines.append(f"{candidate.path} (not included)")
        else:
            room -= candidate.size
            lines.append(candidate.path)
            texts.append(block(f"{folder}/{candidate.path}", text))
    if len(files) > LISTED or not found.complete:
        lines.append("and more")
    listing = block(f"{folder}/", "\n".join(lines) or "(no text files)", language="")
    return Attachment(path, "\n\n".join((listing, *texts)), stamp, len(files) - len(texts))


def block(path: str, text: str, language: str | None = None) -> str:
    """A heading, and the text in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    suffix = path.rpartition("/")[2].rpartition(".")[2] if language is None and "." in path else ""
    info = suffix if suffix.isalnum() else ""
    return f"{path}:\n{fence}{info}\n{text.rstrip(chr(10))}\n{fence}"


def summary(found: Sequence[Attachment], tokens: int | None) -> str:
    """What is attached, in one line."""
    if not found:
        return ""
    left_out = sum(attachment.left_out for attachment in found)
    parts = [", ".join(attachment.path for attachment in found)]
    parts += [f"~{tokens:,} tokens in all"] if tokens is not None else []
    parts += [f"{left_out:,} files only listed"] if left_out else []
    return " · ".join(parts)
