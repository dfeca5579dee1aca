"""The near miss: the name that somebody meant who mistyped it."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Ask whether the nearest of the known names is meant; `otherwise` where none is near."""
    near = get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
