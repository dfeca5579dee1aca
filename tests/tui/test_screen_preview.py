"""The preview in the drawer: what the options make of the next token."""

import asyncio
import subprocess
import sys
from threading import Event, current_thread, main_thread

import pytest

from chatapp.generation import GenerationError, Options
from chatapp.generation.decoding.preview import Candidate, Preview
from chatapp.tui.sampling.preview import draw, draw_candidate, format_percent
from support.patience import PATIENCE
from support.sampling_page import DISTRIBUTION, drawn
from support.typist import until


async def test_the_preview_follows_the_options() -> None:
    async with drawn(look=DISTRIBUTION.under) as hand:
        await until(lambda: hand.drawer.preview)
        assert hand.drawer.preview == DISTRIBUTION.under(Options())
        hand.go("top_k")
        await hand.press("1", "enter")
        await until(lambda: hand.drawer.preview == DISTRIBUTION.under(Options(top_k=1)))
        assert "next token" in hand.lines[16] and hand.lines[16].endswith("1 of 1,000 kept")
        assert hand.lines[17].startswith("·t0 ") and hand.lines[17].endswith("→  100 %")
        assert hand.lines[-1].split() == [
            "effective",
            "choices",
            f"{hand.drawer.preview.choices_before:.0f}",
            "→",
            "1.0",
        ]


async def test_previews_are_computed_one_at_a_time_beside_the_screen_and_the_newest_wins() -> None:
    go, asked = Event(), list[int]()

    def look(options: Options) -> Preview:
        assert current_thread() is not main_thread()
        asked.append(options.top_k)
        go.wait(PATIENCE)
        return DISTRIBUTION.under(options)

    async with drawn(look=look) as hand:
        await until(lambda: asked == [40])
        assert "reading the prompt" in hand.lines[16]
        hand.go("top_k")
        await hand.press("right", "right", "right", "right")
        await asyncio.sleep(0.05)
        assert asked == [40]
        go.set()
        await until(lambda: hand.drawer.preview)
        assert asked == [40, hand.drawer.options.top_k]
        assert hand.drawer.preview == DISTRIBUTION.under(hand.drawer.options)


async def test_without_anything_said_there_is_nothing_to_preview() -> None:
    async with drawn(look=lambda options: None) as hand:
        await until(lambda: "nothing to preview yet" in hand.lines[16])
        hand.drawer.take_preview(DISTRIBUTION.under(Options()), "")
        assert "kept" in hand.lines[16]


async def test_why_there_is_no_preview_is_said() -> None:
    def look(options: Options) -> Preview:
        raise GenerationError("no token can follow: \x1b[31m")

    async with drawn(look=look) as hand:
        await until(lambda: "no token can follow: ␛[31m" in hand.lines)


async def test_what_was_said_since_is_previewed_when_asked() -> None:
    previews = [DISTRIBUTION.under(Options()), DISTRIBUTION.under(Options(top_k=2))]
    left = list(previews)
    async with drawn(look=lambda options: left.pop(0)) as hand:
        await until(lambda: hand.drawer.preview is previews[0])
        hand.drawer.look_again()
        await until(lambda: hand.drawer.preview is previews[1])


def test_bars_show_what_was_there_what_was_won_and_what_was_lost() -> None:
    candidates = Candidate(1, " a", 0.25, 0.5), Candidate(2, "b\n", 0.5, 0.25), Candidate(3, "c", 0.1, 0.0)
    lines = draw(Preview(candidates, 2, 49_152, 1.0, 1.0), 36, 5)
    assert lines[0].plain == "next token          2 of 49,152 kept"
    assert lines[1].plain == "·a         ████████████  25 →   50 %"
    assert lines[2].plain == "b⏎         ██████░░░░░░  50 →   25 %"
    assert lines[3].plain == "c          ░░            10 →    –  "
    assert lines[4].plain == "effective choices          2.0 → 2.0"
    assert [line.cell_length for line in lines] == [36] * 5


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\u202egnp.exe", "\u200b" * 500, "日本語日本語日本語", "[red]x[/red]", "e\u0301" * 40]
)
def test_a_token_s_text_cannot_leave_its_column(text: str) -> None:
    line = draw_candidate(Candidate(1, text, 0.5, 0.5), 0.5, 36)
    assert line.cell_length == 36
    assert not {"\x1b", "\u202e"} & set(line.plain)
    assert len(line.plain) < 100


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "–"), (1, "100"), (0.5, "50"), (0.0994, "9.9"), (0.0996, "10"), (0.001, "0.1"), (1e-9, "<.1")],
)
def test_probabilities_take_four_letters_at_most(share: float, shown: str) -> None:
    assert format_percent(share) == shown


def test_the_drawer_loads_nothing_heavy() -> None:
    code = (
        "import sys, chatapp.tui.sampling.drawer as _\n"
        "print({'numpy', 'tokenizers', 'textual.widgets._text_area', 'chatapp.settings.presets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
