"""chatapp.text.printable: nothing a model writes can command, reorder or flood a terminal."""

import unicodedata

import pytest

from chatapp.text.printable import LONGEST_RUN, printable

HARMLESS = [
    "",
    "def f(x):\n\treturn x\n",
    "naïve café, Ελληνικά, 日本語, עברית, العربية, हिन्दी",
    "e\u0301 combines",
    "👩‍👩‍👧‍👦 ❤️ 🏳️‍🌈 are joined by invisible characters",
    "می‌خواهم needs a zero-width non-joiner",
    "\u00a0no-break space",
]
HOSTILE = [
    ("colour", "\x1b[31mred\x1b[0m"),
    ("window title", "\x1b]0;owned\x07"),
    ("clipboard", "\x1b]52;c;ZXZpbA==\x1b\\"),
    ("hyperlink", "\x1b]8;;https://example.invalid\x1b\\text\x1b]8;;\x1b\\"),
    ("clear screen", "\x1b[2J\x1b[H"),
    ("report position", "\x1b[6n"),
    ("alternate screen", "\x1b[?1049h"),
    ("device control string", '\x1bP$q"p\x1b\\'),
    ("single shift", "\x1bN\x1bO"),
    ("C1 control sequence introducer", "\x9b31m"),
    ("C1 operating system command", "\x9d0;owned\x9c"),
    ("next line", "one\x85two"),
    ("bell, backspace, form feed, shift out", "\x07\x08\x0c\x0e"),
    ("delete", "\x7f"),
    ("zero", "a\0b"),
    ("overwritten line", "rm -rf /\rls       "),
    ("right-to-left override", "abc\u202efdp.exe"),
    ("isolates and marks", "\u2066\u2067\u2068\u2069\u200e\u200f\u061c"),
    ("tags", "\U000e0041\U000e0042"),
    ("annotations", "\ufff9a\ufffab\ufffb"),
    ("lone surrogates", "\ud800 \udfff"),
    ("surrogate pair left apart", "\ud83d\ude00"),
    ("line and paragraph separators", "a\u2028b\u2029c"),
]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(("what", "text"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_no_control_character_is_left(what: str, text: str) -> None:
    shown = printable(text)
    bad = {"Cc", "Cs", "Zl", "Zp"}
    assert not [character for character in shown if unicodedata.category(character) in bad and character not in "\n\t"]
    assert not [character for character in shown if unicodedata.bidirectional(character) in BIDIRECTIONAL]
    assert shown.encode()


BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(("what", "text"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_a_sequence_split_between_fragments_is_caught_all_the_same(what: str, text: str) -> None:
    for place in range(len(text) + 1):
        assert printable(text[:place]) + printable(text[place:]) == printable(text)


@pytest.mark.parametrize(("what", "text"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_twice_is_the_same_as_once(what: str, text: str) -> None:
    assert printable(printable(text)) == printable(text)


def test_control_characters_become_visible() -> None:
    assert printable("\x1b[31m") == "␛[31m"
    assert printable("\x7f\x9b\u202e") == "␡\ufffd\ufffd"


def test_windows_line_ends_become_plain_ones() -> None:
    assert printable("one\r\ntwo\r\n") == "one\ntwo\n"


@pytest.mark.parametrize("character", ["\u0301", "\u200b", "\u200d", "\ufe0f", "\u2060", "\U000e0100", "\u3164"])
def test_a_flood_of_invisible_characters_is_cut(character: str) -> None:
    assert printable("a" + character * 10_000 + "b") == "a" + character * LONGEST_RUN + "b"
    assert printable("a" + character * LONGEST_RUN + "b") == "a" + character * LONGEST_RUN + "b"


def test_every_character_is_either_kept_or_replaced_by_at_most_one() -> None:
    assert all(len(printable(chr(code))) <= 1 for code in range(0x110000))
