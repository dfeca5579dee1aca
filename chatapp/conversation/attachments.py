"""Files and folders that a message mentions as `@path`: finding them, ranking them, and attaching their text."""

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
"""Maximum size of a file, in bytes."""
FOLDER_LIMIT: Final = 256_000
"""Maximum bytes of a folder's files together; the rest is only listed."""
LISTED: Final = 200
"""Maximum files of a folder that are listed."""
MOST_FILES: Final = 2_000
"""Maximum files examined per folder, so that a huge folder does not hide the others."""
SKIPPED: Final = {"__pycache__", "node_modules"}
"""Folders that are never offered; hidden ones are skipped as well."""
SCATTERED: Final = 5
"""The rank, as `score` counts, from which the letters of a query only occur scattered in a path."""


@dataclass(frozen=True)
class Candidate:
    """A file or folder that could be attached."""

    path: str
    """Relative to the working directory, with `/`; a folder ends with one."""
    size: int = 0


@dataclass(frozen=True)
class Scan:
    """The files and folders that could be attached."""

    candidates: tuple[Candidate, ...]
    complete: bool = True
    """Whether these are all: a very large tree is not walked to its end."""


@dataclass(frozen=True)
class Mention:
    """An `@path` in a text."""

    start: int
    end: int
    path: str


@dataclass(frozen=True)
class Attachment:
    """A mentioned file or folder as it was when read."""

    path: str
    text: str
    """As it goes into the message: the path as a heading, and a fenced block."""
    stamp: tuple[int, int]
    """Modification time and size, to notice later changes."""
    left_out: int = 0
    """Files of the folder whose text is not included."""


# Finding


def scan(root: Path, *, limit: int = 10_000, seconds: float = 2.0) -> Scan:
    """Text files and folders below `root`, nearest first, within these limits of number and time."""
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
    """The visible entries of a folder by name; empty if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            named = [entry for entry in found if not entry.name.startswith(".") and entry.name not in SKIPPED]
    except OSError:
        return []
    # Names that are not UTF-8 or contain control characters can be neither shown nor typed.
    told = (entry for entry in named if entry.name.isprintable() and '"' not in entry.name)
    return sorted(told, key=lambda entry: entry.name.casefold())


def text_size(path: Path) -> int | None:
    """The size of a text file that is not too large; None for anything else."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        with path.open("rb") as file:
            return None if b"\0" in file.read(1024) else found.st_size
    except OSError:
        return None


def rank(query: str, candidates: Sequence[Candidate], limit: int = 8) -> list[Candidate]:
    """The candidates that contain the query's letters in order, ignoring case, best match first."""
    wanted = query.casefold()
    if not wanted:
        near = sorted(candidates, key=lambda candidate: candidate.path.rstrip("/").count("/"))  # stable: by name within
        return near[:limit]
    letters = re.compile("".join(f"(?>.*?{re.escape(letter)})" for letter in wanted))  # atomic: no backtracking
    paths = ((candidate, candidate.path.casefold()) for candidate in candidates)
    fitting = [(score(wanted, path), path, candidate) for candidate, path in paths if letters.match(path)]
    return [found for _, _, found in sorted(fitting, key=lambda fit: fit[:2])[:limit]]


def score(query: str, path: str) -> tuple[int, int, int]:
    """Sort key, lower is better: exact name, prefix, start of a word, within the name, within the path, scattered."""
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
    """Whether a candidate only has the query's letters scattered, as some file does for any query."""
    return bool(query) and score(query.casefold(), candidate.path.casefold())[0] >= SCATTERED


# Mentions

_MENTION: Final = re.compile(r'(?:(?<=[\s(\[{])|^)@(?:"([^"\n]+)"|([^\s"]+))', re.MULTILINE)
_AFTER: Final = ".,;:!?)]}'"
"""Punctuation that may follow a path without belonging to it."""


def mentions(text: str, is_there: Callable[[str], bool]) -> Iterator[Mention]:
    """Every `@path` and `@"path with spaces"` that exists; any other `@word` is plain text."""
    for found in _MENTION.finditer(text):
        path, end = found[1] or found[2], found.end()
        if found[2]:
            while not is_there(path) and path[-1:] in _AFTER and len(path) > 1:
                path, end = path[:-1], end - 1
        if is_there(path):
            yield Mention(found.start(), end, path)


def mention(path: str) -> str:
    """A path as a mention."""
    return f'@"{path}"' if re.search(r"\s", path) or path[-1:] in _AFTER else f"@{path}"


def locate(path: str, root: Path) -> Path:
    """The location of a path that was typed, relative to `root`; `~` is the home folder."""
    return root / os.path.expanduser(path)


def is_there(path: str, root: Path) -> bool:
    """Whether the path exists."""
    try:
        return locate(path, root).exists()
    except (OSError, ValueError):  # a name that is too long, or contains a zero byte
        return False


def is_whole(path: str, root: Path) -> bool:
    """Whether the path exists and is not a folder, so that nothing more need be typed."""
    return is_there(path, root) and not locate(path, root).is_dir()


# Reading


def attach(text: str, root: Path, known: Iterable[str] = ()) -> tuple[Attachment, ...]:
    """Read everything a text mentions, each once; InputError if something cannot be attached.

    `known` are paths that existed while the text was typed: one that is gone since would pass for plain text.
    """
    for path in known:
        if mention(path) in text and not is_there(path, root):
            raise InputError(f"{path} no longer exists; remove @{path}, or put the file back")
    paths = dict.fromkeys(found.path for found in mentions(text, lambda path: is_there(path, root)))
    return tuple(read(path, root) for path in paths)


def message(text: str, attachments: Sequence[Attachment]) -> str:
    """The text, followed by its attachments."""
    return "\n\n".join((text, *(attachment.text for attachment in attachments)))


def read(path: str, root: Path) -> Attachment:
    """A file, or a folder's listing and text files, in their current state."""
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
    """The text of a file; InputError if it is not a text file or too large."""
    found = place.stat()
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is neither a file nor a folder")
    with place.open("rb") as file:
        content = file.read(LARGEST + 1)  # st_size is wrong for files in /proc and for files that grow
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
    """A heading, and the text in a fence long enough that nothing in the text closes it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    suffix = path.rpartition("/")[2].rpartition(".")[2] if language is None and "." in path else ""
    info = suffix if suffix.isalnum() else ""
    return f"{path}:\n{fence}{info}\n{text.rstrip(chr(10))}\n{fence}"


def summary(found: Sequence[Attachment], tokens: int | None) -> str:
    """One line about the attachments."""
    if not found:
        return ""
    left_out = sum(attachment.left_out for attachment in found)
    parts = [", ".join(attachment.path for attachment in found)]
    parts += [f"~{tokens:,} tokens in all"] if tokens is not None else []
    parts += [f"{left_out:,} files only listed"] if left_out else []
    return " · ".join(parts)
