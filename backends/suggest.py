"""Suggest the name that was meant, for one that was mistyped or not finished."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

SHOWN = 3
"""Most suggestions of names that begin with what was typed."""
SHORT = 4
"""Words of up to this length are similar to others by chance, so that they must match better."""


def suggest(word: object, known: Iterable[str], otherwise: str = "", *, who: str = "you", near: float = 0.6) -> str:
    """The question "did you mean ...?" for names that begin with `word`, or the closest one; else `otherwise`.

    `near` is the similarity needed, 0 to 1. `who` meant it: only what "you" typed may be the beginning of a name.
    """
    typed = squeeze(str(word))
    bare = {squeeze(name): name for name in known}
    found = [name for name in bare if who == "you" and typed[1:] and name.startswith(typed)][:SHOWN]
    found = found or get_close_matches(typed, bare, 1, max(near, 0.65) if len(typed) <= SHORT else near)
    names = ", ".join(bare[name] for name in found)
    return f"did {who} mean {' or '.join(names.rsplit(', ', 1))}?" if names else otherwise


def squeeze(name: str) -> str:
    """A name without what joins its words: --maxtokens is --max-tokens, and no two options are near by their dashes."""
    return re.sub("[-_: ]", "", name)
