"""Choices for what is being typed: commands after `/`, paths after `@`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chatapp.commands.parse import is_command
from chatapp.conversation.attachments import Candidate, is_guess, mention, rank
from chatapp.text.units import size
from chatapp.tui.prompt.popup import ROWS, Choice

Commands = Sequence[tuple[str, str]]
"""Names, perhaps with arguments after them, and what the commands do."""

_PATH: Final = re.compile(r'(?:^|[\s(\[{])(@(?:"([^"]*)|([^\s"]*)))$')


def offer_commands(text: str, known: Commands) -> list[Choice]:
    """Offer the commands that begin with what is typed."""
    if not is_command(text) or "\n" in text:
        return []
    typed = text[1:].casefold()
    names = [(name.removeprefix("/"), about) for name, about in known]
    own = [(name, about, cut_arguments(name)) for name, about in names]
    return [Choice(f"/{name}", about, f"/{cut}") for name, about, cut in own if cut.startswith(typed)]


def cut_arguments(name: str) -> str:
    """Strip the arguments of a name, which are not all in small letters, and a blank where they would begin."""
    words = name.split()
    own = next((i for i, word in enumerate(words) if not re.fullmatch(r"[a-z?!\"-]+", word)), len(words))
    return " ".join(words[:own]) + (" " if own < len(words) else "")


def find_path(line: str) -> tuple[int, str] | None:
    """Find where the `@` of the path that ends this line stands, and the path as far as it is typed."""
    found = _PATH.search(line)
    return (found.start(1), found[2] or found[3] or "") if found else None


def offer_paths(query: str, candidates: Sequence[Candidate]) -> list[Choice]:
    """Offer the files and folders that fit, likeliest first."""
    if query.startswith(("/", "~")):  # from elsewhere: only what is below one folder is known
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
