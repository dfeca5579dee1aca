"""Make a model's text safe to show in a terminal."""

import re
from typing import Final

LONGEST_RUN: Final = 16
"""Most invisible and combining characters in a row: enough for any script and emoji, too few to hide or pile up."""


def _replacements() -> dict[int, str]:
    """Replacements for characters that control a terminal, or reorder or hide what follows."""
    visible = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\N{SYMBOL FOR DELETE}"}
    for kept in "\n\t":
        del visible[ord(kept)]
    line_ends = {0x0D: "", 0x2028: "\n", 0x2029: "\n"}
    unsafe = (
        range(0x80, 0xA0),  # C1: one-character forms of ESC [ and its kin
        (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # bidirectional controls
        range(0x206A, 0x2070),  # deprecated format characters
        range(0xD800, 0xE000),  # surrogates, which no encoding can write
        range(0xFFF9, 0xFFFC),  # interlinear annotation
        range(0xE0000, 0xE0080),  # tags: invisible ASCII
    )
    replaced = {code: "\N{REPLACEMENT CHARACTER}" for codes in unsafe for code in codes}
    return visible | line_ends | replaced


_REPLACEMENTS: Final = _replacements()

# Zero-width and filler characters, variation selectors, and the blocks of combining marks.
_INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\U000e0100-\U000e01ef"
)
FLOOD: Final = re.compile(f"([{_INVISIBLE}]{{{LONGEST_RUN}}})[{_INVISIBLE}]+")


def printable(text: str) -> str:
    """The text with control characters made visible.

    Each character is judged by itself, so that a sequence split between two fragments is caught too. Carriage returns
    are dropped: they would let a line overwrite what was shown before.
    """
    if text.isascii() and text.isprintable():
        return text
    return FLOOD.sub(r"\1", text.translate(_REPLACEMENTS))


def clean_paste(text: str) -> str:
    """Pasted text, printable and with our line ends."""
    return printable(text.replace("\r\n", "\n").replace("\r", "\n"))
