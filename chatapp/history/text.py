"""Texts as they can be kept, and titles made of them."""

TITLE = 60
"""Characters of a title that is made from the first words."""


def first_words(text: str) -> str:
    """A title from the beginning of a text."""
    line = " ".join(text[: 20 * TITLE].split())
    if len(line) <= TITLE:
        return line
    whole = line[: TITLE + 1].rpartition(" ")[0]
    return f"{whole if len(whole) > TITLE // 2 else line[:TITLE]}…"


def clean(text: str) -> str:
    """The text without surrogates, which cannot be stored and are no characters."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def one_line(text: str) -> str:
    """A name or a title, in one line."""
    return " ".join(clean(text).split())
