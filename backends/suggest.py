"""The near miss: the name that somebody meant who mistyped it."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(word: object, known: Iterable[str], otherwise: str = "", *, who: str = "you", near: float = 0.6) -> str:
    """Ask whether the nearest of the known names is meant; `otherwise` where none is `near` enough."""
    found = get_close_matches(str(word), list(known), 1, near)
    return f"did {who} mean {found[0]}?" if found else otherwise
