"""Splits a message into the user's words and the long parts, attachments and pastes, that are shown folded."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from chatapp.conversation.attachments import mentions

SHORT = 6
"""Attachments of at most this many lines are not folded."""
LONGEST, LINES = 4_000, 40
"""Words of at most this many characters and lines are not folded."""
HEAD, TAIL = 1_200, 600
"""Characters at the beginning and end of longer words that stay visible."""
FENCE = re.compile("(`{3,})[^`]*")
"""The line after an attachment's name, as `chatapp.conversation.attachments` writes it."""
OUTPUT = re.compile(r"\$ .+ \(.+\)")
"""The heading of a command's output, as `chatapp.conversation.shell` writes it."""


@dataclass(frozen=True)
class Part:
    """A piece of a message; it is folded if it has a label."""

    text: str
    label: str = ""
    """What it contains, such as `src/ · 30 files`."""


@dataclass(frozen=True)
class Block:
    """An attachment: its name, and the lines from the name to the closing fence."""

    name: str
    first: int
    last: int


def parts(text: str) -> Sequence[Part]:
    """The pieces of a message: words, and long attachments; the files of one folder make one piece."""
    lines, found, done = text.split("\n"), list[Part](), 0
    headings = {line[:-1].rstrip("/") for line in lines if line.endswith(":")}
    meant = {one.path.rstrip("/") for one in mentions(text, lambda path: path.rstrip("/") in headings)}
    for group in groups(blocks(lines, meant)):
        first, last = group[0].first, group[-1].last
        if last - first > SHORT + 2:
            found += words("\n".join(lines[done:first]))
            files, inside = len(group) - 1, group[0].last - first - 2
            size = f"{files:,} file" if files else f"{inside:,} line"
            label = f"{group[0].name} · {size}{'s' * ((files or inside) != 1)}"
            found.append(Part("\n".join(lines[first : last + 1]), label))
            done = last + 1
    return [*found, *words("\n".join(lines[done:]))]


def blocks(lines: Sequence[str], meant: Collection[str]) -> Iterator[Block]:
    """The attachments in a message, found in one pass: command output, and files that the message mentions."""
    fences: defaultdict[str, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if line.startswith("```") and not line.strip("`"):
            fences[line].append(place)
    done, folder = -1, ""
    for place, line in enumerate(lines[:-1]):
        if place <= done or not line.endswith(":") or not (fence := FENCE.fullmatch(lines[place + 1])):
            continue
        name, ends = line[:-1], fences[fence[1]]
        is_ours = OUTPUT.fullmatch(name) or name.rstrip("/") in meant or (folder and name.startswith(folder))
        if is_ours and (after := bisect_right(ends, place + 1)) < len(ends):
            done = ends[after]
            folder = name if name.endswith("/") else folder
            yield Block(name, place, done)


def groups(found: Iterator[Block]) -> Sequence[Sequence[Block]]:
    """The attachments in groups: a folder with its files, any other one by itself."""
    grouped: list[list[Block]] = []
    for block in found:
        folder = grouped[-1][0].name if grouped else ""
        if folder.endswith("/") and block.name.startswith(folder):
            grouped[-1].append(block)
        else:
            grouped.append([block])
    return grouped


def words(text: str) -> Iterator[Part]:
    """The user's own words; if very long, such as a paste, the middle is folded."""
    text = text.strip("\n")
    if len(text) <= LONGEST and text.count("\n") < LINES:
        if text:
            yield Part(text)
        return
    lines = text.split("\n")
    head = "\n".join(lines[:10])[:HEAD]
    tail = "\n".join(lines[-5:])[-TAIL:]
    middle = text[len(head) : len(text) - len(tail)].strip("\n")
    many = middle.count("\n") + 1
    size = f"{many:,} lines" if many > 1 else f"{len(middle):,} characters"
    yield Part(head)
    yield Part(middle, f"… {size}")
    yield Part(tail)
