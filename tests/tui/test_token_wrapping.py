"""Token heat: how tokens are wrapped, labelled and coloured."""

import math
from collections.abc import Sequence
from dataclasses import asdict

import pytest
from rich.cells import cell_len
from rich.color import Color as RichColor

import themes
from chatapp.text.printable import LONGEST_RUN
from chatapp.tui.insight.shades import PLAIN, STEPS, shades, step
from chatapp.tui.insight.wrapping import NEWLINE, NOTHING, Flow, label
from chatapp.tui.theme import palette
from support.awkward_texts import TEXTS
from support.insight_page import SHARES, tokens
from support.scripted_engine import ANSWER, pieces


def flow(texts: Sequence[str], width: int = 20) -> Flow:
    made = Flow(width)
    made.grow(texts)
    return made


def rows(made: Flow) -> list[str]:
    return ["".join(piece.text for piece in row) for row in made.rows]


# Wrapping


def test_words_are_not_broken_and_every_character_is_kept() -> None:
    made = flow(pieces("the quick brown fox jumps over the lazy dog"))
    assert rows(made) == ["the quick brown fox ", "jumps over the lazy ", "dog"]


def test_a_word_of_several_tokens_moves_to_the_next_row_whole() -> None:
    assert rows(flow(["one two thre", "e four", "teen ", "five"], 16)) == ["one two three ", "fourteen five"]


def test_a_word_longer_than_a_row_is_broken() -> None:
    assert rows(flow(["a" * 25], 11)) == ["a" * 10, "a" * 10, "a" * 5]


def test_newlines_end_rows_and_can_be_seen() -> None:
    assert rows(flow(["one\n", "\n", "two\nthree"])) == [f"one{NEWLINE}", NEWLINE, f"two{NEWLINE}", "three"]


def test_a_token_without_text_has_a_cell_of_its_own() -> None:
    made = flow(["a", "", "\u200b", "b"])
    assert rows(made)[0].startswith(f"a{NOTHING}")
    assert made.place(1) == (0, 1)


def test_wide_characters_break_anywhere_and_take_two_cells() -> None:
    made = flow(["日本語の文章です", "。東京"], 10)
    assert all(cell_len(row) <= 10 for row in rows(made))
    assert "".join(rows(made)) == "日本語の文章です。東京"
    assert made.place(1)[1] % 2 == 0


def test_a_mark_in_a_token_of_its_own_stays_on_its_letter() -> None:
    made = flow(["cafe", "\u0301", " au lait"])
    assert rows(made) == ["cafe\u0301 au lait"]
    assert made.host(1) == 0
    assert made.place(1) == made.place(0)
    assert made.rows[0][0].width == 4


def test_a_joined_emoji_of_several_tokens_takes_two_cells() -> None:
    made = flow(["👩", "\u200d", "👩", "\u200d👧", "!"])
    assert made.place(4) == (0, 2)
    assert made.host(3) == 0


def test_marks_cannot_pile_up_from_token_to_token() -> None:
    made = flow(["e", *["\u0301"] * 500])
    assert len(rows(made)[0]) == 1 + LONGEST_RUN


def test_control_characters_are_shown_and_not_obeyed() -> None:
    text = "".join(rows(flow(["\x1b[2J", "\x07", "\u202eabc", "\r", "\x9b"], 40)))
    assert text == f"␛[2J␇\N{REPLACEMENT CHARACTER}abc{NOTHING}\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("width", [5, 20, 81])
def test_growing_token_by_token_gives_the_rows_of_the_whole(width: int) -> None:
    texts = [one for text in (*TEXTS, ANSWER) for one in (text[i : i + 3] for i in range(0, len(text), 3))]
    made = Flow(width)
    for text in texts:
        made.grow([text])
    once = flow(texts, width)
    assert rows(made) == rows(once)
    assert [made.place(i) for i in range(len(texts))] == [once.place(i) for i in range(len(texts))]
    assert all(cell_len(row) <= width for row in rows(once))
    once.rewrap(width + 7)
    assert rows(once) == rows(flow(texts, width + 7))


def test_every_cell_knows_its_token() -> None:
    made = flow([one.text for one in tokens()], 30)
    for row, found in enumerate(made.rows):
        column = 0
        for piece in found:
            assert made.at(row, column) == made.at(row, column + piece.width - 1) == piece.token
            column += piece.width
        assert made.at(row, column + 5) == found[-1].token


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" the", "␣the"),
        ("\n\n", "↵↵"),
        ("\n        ", "↵␣×8"),
        ("\t", "→"),
        ("", NOTHING),
        ("\u200b", "\\u200b"),
        ("\x1b", "␛"),
    ],
)
def test_labels_show_what_is_invisible(text: str, told: str) -> None:
    assert label(text) == told


# Colours


def luminance(colour: RichColor | None) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    assert colour
    channels = [channel / 255 for channel in colour.get_truecolor()]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: RichColor | None, second: RichColor | None) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_a_probability_has_one_look() -> None:
    assert [step(math.log(share)) for share in SHARES] == list(range(len(STEPS) + 1))
    assert step(-math.inf) == len(STEPS)
    assert step(1e-9) == 0


@pytest.mark.parametrize("name", [name for name, theme in themes.load().items() if not theme.ansi])
def test_heat_is_legible_and_rises_with_surprise(name: str) -> None:
    ours = themes.load()[name]
    looks = shades(palette(ours).variables | asdict(ours), plain=False)
    assert len(looks) == len(STEPS) + 1
    page = looks[0].bgcolor
    away = [contrast(look.bgcolor, page) for look in looks]
    assert all(later > earlier * 1.05 for earlier, later in zip(away, away[1:], strict=False)), away
    assert min(contrast(look.color, look.bgcolor) for look in looks) >= 4.5
    assert [bool(look.underline) for look in looks] == [False] * 3 + [True] * 3


def test_without_colours_every_step_still_looks_different() -> None:
    assert len({str(look) for look in PLAIN}) == len(STEPS) + 1
    assert shades({}, plain=True) == PLAIN
    assert not any(look.color or look.bgcolor for look in PLAIN)
