"""Choices for what is being typed: commands after `/`, paths after `@`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chatapp.commands.parse import is_command
from chatapp.conversation.attachments import Candidate, mention, rank
from chatapp.text.units import size
from chatapp.tui.prompt.popup import ROWS, Choice

Commands = Sequence[tuple[str, str]]
"""Names, perhaps with arguments after them, and what the commands do."""

_PATH: Final = re.compile(r'(?:^|[\s(\[{])(@(?:"([^"]*)|([^\s"]*)))$')


def commands(text: str, known: Commands) -> list[Choice]:
    """The commands that begin with what is typed."""
    if not is_command(text) or "\n" in text:
        return []
    typed = text[1:].casefold()
    names = [(name.removeprefix("/"), about) for name, about in known]
    return [Choice(f"/{name}", about, f"/{own}") for name, about in names if (own := literal(name)).startswith(typed)]


def literal(name: str) -> str:
    """The name without its arguments, which are not all in small letters, and a blank where they would begin."""
    words = name.split()
    own = next((i for i, word in enumerate(words) if not re.fullmatch(r"[a-z?!\"-]+", word)), len(words))
    return " ".join(words[:own]) + (" " if own < len(words) else "")


def path_before(line: str) -> tuple[int, str] | None:
    """Where the `@` of the path that ends this line stands, and the path as far as it is typed."""
    found = _PATH.search(line)
    return (found.start(1), found[2] or found[3] or "") if found else None


def paths(query: str, candidates: Sequence[Candidate]) -> list[Choice]:
    """The files and folders that fit, likeliest first."""
    return [Choice(found.path, about(found), mention(found.path)) for found in rank(query, candidates, ROWS)]


def about(candidate: Candidate) -> str:
    return "folder" if candidate.path.endswith("/") else size(candidate.size)
