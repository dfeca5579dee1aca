"""The long parts of a message, attachments and pastes, told from its user's words so that they can be folded."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHORT = 6
"""Lines of an attachment that is shown as it is."""
LONGEST, LINES = 4_000, 40
"""Characters, and lines, of words that are shown as they are."""
HEAD, TAIL = 1_200, 600
"""Characters at the beginning and at the end of longer words that stay in sight."""
FENCE = re.compile("(`{3,})[^`]*")
"""The line under the name of an attachment, as `chatapp.conversation.attachments` writes it."""


@dataclass(frozen=True)
class Part:
    """A piece of a message; one with a label is folded."""

    text: str
    label: str = ""
    """What is in it, such as `src/ · 30 files`."""


@dataclass(frozen=True)
class Block:
    """An attachment: the lines from its name to the end of its fence."""

    name: str
    first: int
    last: int


def parts(text: str) -> Sequence[Part]:
    """The pieces of a message: words, and long attachments; those of one folder together."""
    lines, found, done = text.split("\n"), list[Part](), 0
    for group in groups(blocks(lines)):
        first, last = group[0].first, group[-1].last
        if last - first > SHORT + 2:
            found += words("\n".join(lines[done:first]))
            files, inside = len(group) - 1, group[0].last - first - 2
            size = f"{files:,} file" if files else f"{inside:,} line"
            label = f"{group[0].name} · {size}{'s' * ((files or inside) != 1)}"
            found.append(Part("\n".join(lines[first : last + 1]), label))
            done = last + 1
    return [*found, *words("\n".join(lines[done:]))]


def blocks(lines: Sequence[str]) -> Iterator[Block]:
    """The attachments among the lines of a message, in one pass."""
    fences: defaultdict[str, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if line.startswith("```") and not line.strip("`"):
            fences[line].append(place)
    done = -1
    for place, line in enumerate(lines[:-1]):
        if place > done and len(line) > 1 and line.endswith(":") and (fence := FENCE.fullmatch(lines[place + 1])):
            ends = fences[fence[1]]
            if (after := bisect_right(ends, place + 1)) < len(ends):
                done = ends[after]
                yield Block(line[:-1], place, done)


def groups(found: Iterator[Block]) -> Sequence[Sequence[Block]]:
    """Each attachment by itself; a folder together with its files, which follow it."""
    grouped: list[list[Block]] = []
    for block in found:
        folder = grouped[-1][0].name if grouped else ""
        if folder.endswith("/") and block.name.startswith(folder):
            grouped[-1].append(block)
        else:
            grouped.append([block])
    return grouped


def words(text: str) -> Iterator[Part]:
    """The user's own words; of very many, such as a paste, the middle is folded."""
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
