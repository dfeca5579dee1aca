"""The near miss: the name that somebody meant who mistyped it, or did not type all of it."""

from collections.abc import Iterable
from difflib import get_close_matches

SHOWN = 3
"""Names that begin with what was typed, at most."""
SHORT = 4
"""Letters of a word that has much in common with others by chance."""


def suggest(word: object, known: Iterable[str], otherwise: str = "", *, who: str = "you", near: float = 0.6) -> str:
    """Ask whether names are meant that begin so, or one that is `near` enough; `otherwise` where there is none.

    Only what you type may be the beginning of a name; what is in the file of somebody else is all of it.
    """
    typed = str(word).lstrip("-")
    bare = {name.lstrip("-"): name for name in known}  # the dashes of all options make none of them near
    found = [name for name in bare if who == "you" and typed[1:] and name.startswith(typed)][:SHOWN]
    found = found or get_close_matches(typed, bare, 1, max(near, 0.65) if len(typed) <= SHORT else near)
    names = ", ".join(bare[name] for name in found)
    return f"did {who} mean {' or '.join(names.rsplit(', ', 1))}?" if names else otherwise
