"""Texts as they can be kept, and titles made of them and found by their words."""

import re
import unicodedata

TITLE = 60
"""Characters of a title that is made from the first words."""
ATTACHED = re.compile(r"[^\n`]+:\n(`{3,})[^\n`]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
"""An attachment, the output of a command or a file: a line that names it, and a fenced block."""


def first_words(text: str) -> str:
    """A title from the beginning of a text, behind what is attached there."""
    attached = ATTACHED.match(text)
    text = (attached and text[attached.end() :].strip()) or text
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


def plain(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def has_words(text: str, words: str) -> bool:
    """Whether a text has all these words, or beginnings of words, in any case and with or without accents."""
    text = plain(text)
    return all(word in text for word in plain(words).split())
