"""Completions of what is typed: commands after `/`, paths after `@`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chatapp.commands.parse import is_command
from chatapp.conversation.attachments import Candidate, is_guess, mention, rank
from chatapp.text.units import size
from chatapp.tui.prompt.popup import ROWS, Choice

Commands = Sequence[tuple[str, str]]
"""Names, perhaps with arguments, and descriptions."""

_PATH: Final = re.compile(r'(?:^|[\s(\[{])(@(?:"([^"]*)|([^\s"]*)))$')


def offer_commands(text: str, known: Commands) -> list[Choice]:
    """The commands that begin with what is typed."""
    if not is_command(text) or "\n" in text:
        return []
    typed = text[1:].casefold()
    names = [(name.removeprefix("/"), about) for name, about in known]
    own = [(name, about, cut_arguments(name)) for name, about in names]
    return [Choice(f"/{name}", about, f"/{cut}") for name, about, cut in own if cut.startswith(typed)]


def cut_arguments(name: str) -> str:
    """A command without its arguments, which are not in lower case; a space is kept where they begin."""
    words = name.split()
    own = next((i for i, word in enumerate(words) if not re.fullmatch(r"[a-z?!\"-]+", word)), len(words))
    return " ".join(words[:own]) + (" " if own < len(words) else "")


def find_path(line: str) -> tuple[int, str] | None:
    """The column of the `@` of a path at the end of a line, and the path typed so far."""
    found = _PATH.search(line)
    return (found.start(1), found[2] or found[3] or "") if found else None


def offer_paths(query: str, candidates: Sequence[Candidate]) -> list[Choice]:
    """The files and folders that match, best first."""
    if query.startswith(("/", "~")):  # only paths below the working directory are scanned
        return []
    fitting = rank(query, candidates, ROWS)
    return [
        Choice(
            one.path,
            "folder" if one.path.endswith("/") else size(one.size),
            mention(one.path),
            is_guess(query, one),
        )
        for one in fitting
    ]
