"""Prepare texts for storage, and make titles from them."""

import re
import unicodedata

TITLE = 60
"""Longest title made from a text, in characters."""
ATTACHED = re.compile(r"[^\n`]+:\n(`{3,})[^\n`]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
"""An attachment, such as a file or a command's output: a line that names it, and a fenced block."""


def first_words(text: str) -> str:
    """A title from the beginning of a text, after its attachments."""
    attached = ATTACHED.match(text)
    text = (attached and text[attached.end() :].strip()) or text
    line = " ".join(text[: 20 * TITLE].split())
    if len(line) <= TITLE:
        return line
    whole = line[: TITLE + 1].rpartition(" ")[0]
    return f"{whole if len(whole) > TITLE // 2 else line[:TITLE]}…"


def clean(text: str) -> str:
    """A text without surrogates, which are no characters and cannot be stored."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def one_line(text: str) -> str:
    """A name or title in one line."""
    return " ".join(clean(text).split())


def plain(text: str) -> str:
    """A text in lower case without accents."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def has_words(text: str, words: str) -> bool:
    """Whether a text contains all these words, or words that begin with them, ignoring case and accents."""
    text = plain(text)
    return all(word in text for word in plain(words).split())
