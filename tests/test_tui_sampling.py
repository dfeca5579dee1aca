"""The sampling drawer, the presets and the system prompts: keys, the mouse, what is shown and what is refused."""

import asyncio
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import numpy as np
import pytest
from textual import events, on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static, TextArea
from typist import Typist, until

import themes
from chatapp import presets, system_prompts
from chatapp.generation import GenerationError, OptionError, Options
from chatapp.generation.preview import Candidate, Distribution, Preview
from chatapp.tui.palette import palette
from chatapp.tui.sampling import bars
from chatapp.tui.sampling.drawer import SamplingDrawer
from chatapp.tui.sampling.fields import (
    FIELDS,
    Field,
    bias_from_lines,
    bias_to_lines,
    stop_from_lines,
    stop_to_lines,
)
from chatapp.tui.sampling.lines_screen import LinesScreen
from chatapp.tui.sampling.looking import Look
from chatapp.tui.sampling.preset_picker import PresetPicker
from chatapp.tui.sampling.rows import slider
from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen

ROWS = {field.name: place for place, field in enumerate(FIELDS)}
DISTRIBUTION = Distribution(np.linspace(4, -4, 1000, dtype=np.float32) * 2, (), lambda token: f" t{token}")


class Stage(App[None]):
    """The page that a drawer or a screen stands on; it remembers what is posted."""

    def __init__(self, drawer: SamplingDrawer | None = None) -> None:
        super().__init__()
        self.drawer = drawer
        self.posted: list[Any] = []
        for theme in themes.load().values():
            self.register_theme(palette(theme))
        self.theme = "midnight"

    def compose(self) -> ComposeResult:
        if self.drawer:
            yield self.drawer

    @on(SamplingDrawer.Changed)
    @on(SamplingDrawer.WhenFullChanged)
    @on(SamplingDrawer.PresetsOpened)
    @on(SamplingDrawer.Closed)
    def remember(self, message: Any) -> None:
        self.posted.append(message)


class Hand(Typist):
    """A drawer on its page, and the keys that are pressed there."""

    def __init__(self, app: Stage, drawer: SamplingDrawer, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.drawer = app, drawer

    def go(self, name: str) -> None:
        self.drawer.action_walk(ROWS[name] - self.drawer.place)

    @property
    def chosen(self) -> Mapping[str, Any]:
        """The options of the last message, which must be those that the drawer has."""
        changes = [message for message in self.app.posted if isinstance(message, SamplingDrawer.Changed)]
        assert changes[-1].options == self.drawer.chosen
        return changes[-1].options

    @property
    def lines(self) -> list[str]:
        return self.drawer.render().plain.split("\n")

    def row(self, name: str) -> str:
        return next(line for line in self.lines if line[1:].startswith(name))


@asynccontextmanager
async def drawn(
    chosen: Mapping[str, Any] | None = None,
    *,
    defaults: Options = Options(),  # noqa: B008  # frozen
    look: Look | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[Hand]:
    drawer = SamplingDrawer(defaults, chosen or {}, look=look)
    app = Stage(drawer)
    async with app.run_test(size=size) as pilot:
        drawer.focus()
        await pilot.pause()
        yield Hand(app, drawer, pilot)


# Values


async def test_arrows_move_a_slider_and_only_what_differs_from_the_defaults_is_told() -> None:
    async with drawn() as hand:
        await hand.press("right")
        assert hand.chosen == {"temperature": 0.9}
        await hand.press("left", "left")
        assert hand.chosen == {"temperature": 0.7}
        await hand.press("right")
        assert hand.chosen == {}
        assert hand.drawer.options == Options()


async def test_shift_moves_finely_and_the_next_step_is_on_the_slider_again() -> None:
    async with drawn() as hand:
        await hand.press("shift+right", "shift+right")
        assert hand.chosen == {"temperature": 0.82}
        await hand.press("right")
        assert hand.chosen == {"temperature": 0.9}
        hand.go("top_k")
        await hand.press("shift+left")
        assert hand.chosen == {"temperature": 0.9, "top_k": 39}
        assert isinstance(hand.chosen["top_k"], int)


async def test_a_number_is_typed_and_taken_with_enter_or_by_walking_on() -> None:
    async with drawn() as hand:
        await hand.press("1", ".", "2", "5")
        assert hand.row("temperature").rstrip().endswith("1.25▏")
        assert hand.app.posted == []
        await hand.press("backspace", "enter")
        assert hand.chosen == {"temperature": 1.2}
        hand.go("seed")
        await hand.press("enter", "7", "up")
        assert hand.chosen == {"temperature": 1.2, "seed": 7}
        assert hand.drawer.field.name == "max_tokens"


async def test_escape_drops_what_is_typed_and_closes_otherwise() -> None:
    async with drawn() as hand:
        await hand.press("9", "escape")
        assert (hand.drawer.typed, hand.app.posted) == (None, [])
        await hand.press("escape")
        assert [type(message) for message in hand.app.posted] == [SamplingDrawer.Closed]


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [
        ("temperature", "101", "temperature must be 0 (greedy) or from 0.0001 to 100, not 101.0"),
        ("top_k", "4.5", "top_k must be a whole number, 0 (off) or more, not '4.5'"),
        ("top_p", "2", "top_p must be above 0 and at most 1, not 2.0"),
        ("min_p", "1", "min_p must be 0 (off) or more, and below 1, not 1.0"),
        ("repetition_penalty", "-1", "repetition_penalty must be from 0.01 to 100; 1 is off, not -1.0"),
        ("presence_penalty", "--", "presence_penalty must be from -100 to 100, not '--'"),
        ("max_tokens", "0", "max_tokens must be a whole number, 1 or more, not 0"),
        ("seed", "-5", "seed must be a whole number, from 0 to 2**64 - 1, not -5"),
    ],
)
async def test_what_is_out_of_range_is_refused_in_the_option_s_own_words(name: str, typed: str, message: str) -> None:
    async with drawn() as hand:
        hand.go(name)
        await hand.press(*typed, "enter")
        assert hand.drawer.error == message
        assert " ".join(message.split()[:3]) in "\n".join(hand.lines)
        assert hand.drawer.typed == typed
        await hand.press("down")
        assert hand.drawer.field.name == name
        await hand.press("escape", "down")
        assert hand.drawer.error == ""
        assert hand.app.posted == []


async def test_d_and_backspace_go_back_to_the_model_s_own_default() -> None:
    async with drawn({"temperature": 1.5, "seed": 3}, defaults=Options(temperature=0.6, top_k=20)) as hand:
        assert "2 changed" in hand.lines[0]
        assert hand.row("temperature").endswith("1.50•")
        await hand.press("d")
        assert hand.chosen == {"seed": 3}
        assert hand.row("temperature").endswith("0.60 ")
        hand.go("seed")
        await hand.press("backspace")
        assert hand.chosen == {}
        assert "changed" not in hand.lines[0]


async def test_what_is_off_or_without_limit_is_said_in_words() -> None:
    chosen = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "logit_bias": {3: -math.inf}, "stop": ("\n\n",)}
    async with drawn(chosen) as hand:
        words = {name: hand.row(name).split()[-1] for name in ("temperature", "top_k", "top_p", "min_p", "seed")}
        assert words == {"temperature": "greedy•", "top_k": "off•", "top_p": "off•", "min_p": "off", "seed": "random"}
        assert hand.row("max_tokens").rstrip().endswith("no limit")
        assert hand.row("stop").endswith('"\\n\\n"•')
        assert hand.row("logit_bias").endswith("1 token•")


async def test_what_happens_when_the_context_is_full_is_told_apart_from_the_options() -> None:
    async with drawn() as hand:
        await hand.press("end", "right", "right", "right", "enter", "left")
        values = [message.value for message in hand.app.posted if isinstance(message, SamplingDrawer.WhenFullChanged)]
        assert values == ["slide", "summarise", "stop"]
        assert len(values) == len(hand.app.posted)
        await hand.press("right", "d")
        assert hand.drawer.when_full == "stop"


async def test_stop_texts_and_biases_are_edited_as_lines() -> None:
    async with drawn({"stop": ("a\\b",)}) as hand:
        hand.go("stop")
        await hand.press("enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        area = hand.app.screen.query_one(TextArea)
        assert area.text == "a\\\\b"
        await hand.press("enter", *"\\n\\n", "ctrl+j")
        await until(lambda: not isinstance(hand.app.screen, LinesScreen))
        assert hand.chosen == {"stop": ("a\\b", "\n\n")}
        await hand.press("down", "enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        await hand.press(*"5=2", "enter", "x", "ctrl+j")
        refusal = hand.app.screen.query_one("#refusal", Static)
        assert "line 2 must be ID=BIAS, such as 11=-2.5 or 11=-inf, not 'x'" in str(refusal.content)
        await hand.press("backspace", "ctrl+j")
        await until(lambda: not isinstance(hand.app.screen, LinesScreen))
        assert hand.chosen["logit_bias"] == {5: 2.0}
        await hand.press("enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        await hand.press("9", "escape")
        await until(lambda: not isinstance(hand.app.screen, LinesScreen))
        assert hand.chosen["logit_bias"] == {5: 2.0}


async def test_p_asks_for_the_presets() -> None:
    async with drawn() as hand:
        await hand.press("p")
        assert [type(message) for message in hand.app.posted] == [SamplingDrawer.PresetsOpened]


async def test_another_conversation_s_options_are_shown_without_a_message() -> None:
    async with drawn({"top_k": 5}) as hand:
        await hand.press("1")
        hand.drawer.take(Options(temperature=0.3), {"min_p": 0.05}, "slide")
        assert hand.row("temperature").endswith("0.30 ")
        assert hand.row("min_p").endswith("0.05•") and hand.row("when full").endswith("slide•")
        assert hand.app.posted == [] and hand.drawer.typed is None


async def test_the_mouse_moves_a_slider() -> None:
    async with drawn() as hand:
        drawer = hand.drawer
        row = ROWS["top_p"] + 1
        assert await hand.pilot.mouse_down(drawer, offset=(1 + 13, row))
        assert hand.chosen == {"top_p": 0.05}
        await hand.pilot.hover(drawer, offset=(1 + 13 + slider(36) - 1, row))
        await hand.pilot.mouse_up(drawer, offset=(3, row))
        assert hand.chosen == {"top_p": 1.0}
        assert await hand.pilot.click(drawer, offset=(2, ROWS["seed"] + 1))
        assert drawer.field.name == "seed" and hand.chosen == {"top_p": 1.0}
        assert await hand.pilot.click(drawer, offset=(2, 0))
        assert drawer.field.name == "seed"


@pytest.mark.parametrize("height", [1, 2, 6, 13, 14, 15, 16, 40])
async def test_the_row_that_the_keys_move_is_always_seen(height: int) -> None:
    async with drawn(size=(40, height), look=DISTRIBUTION.under) as hand:
        for _ in FIELDS:
            assert len(hand.lines) <= max(2, height)
            assert sum(line.startswith("▸") for line in hand.lines) == 1
            hand.drawer.action_walk(1)


async def test_up_down_home_and_end_walk_through_the_rows() -> None:
    async with drawn() as hand:
        await hand.press("up", "down", "down", "down", "up")
        assert hand.drawer.field.name == "top_p"
        await hand.press("end", "down", "up")
        assert hand.drawer.field.name == "logit_bias"
        await hand.press("home")
        assert hand.drawer.field.name == "temperature"
        await hand.press("l", "L", "j", "h", "k")
        assert hand.chosen == {"temperature": 0.91, "top_k": 30}


async def test_keys_that_come_in_one_burst_act_in_their_order() -> None:
    async with drawn() as hand:
        for key in ("right", "shift+right", "down", "down", "0", ".", "5", "enter", "down", "right"):
            hand.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(lambda: hand.drawer.chosen == {"temperature": 0.91, "top_p": 0.5, "min_p": 0.01})
        hand.go("stop")
        await hand.press("enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        for key in ("a", "b", "ctrl+j"):
            hand.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await until(lambda: hand.drawer.chosen.get("stop") == ("ab",))


# Fields


@pytest.mark.parametrize("field", [field for field in FIELDS if field.slides], ids=lambda field: field.name)
def test_every_stop_of_a_slider_is_an_allowed_value(field: Field) -> None:
    for value in field.ladder:
        allowed: dict[str, Any] = {field.name: value}
        assert Options(**allowed)
    assert [field.at(field.share(value)) for value in field.ladder[:-1]] == list(field.ladder[:-1])
    assert (field.share(field.ladder[0]), field.share(field.ladder[-1])) == (0, 1)
    assert list(field.ladder) == sorted(set(field.ladder))


def test_the_drawer_has_every_option_but_those_that_belong_elsewhere() -> None:
    assert {field.name for field in FIELDS} == set(vars(Options())) - {"n", "logprobs"} | {"when_full"}


def test_values_beyond_the_slider_are_kept_and_come_back_step_by_step() -> None:
    (temperature,) = (field for field in FIELDS if field.name == "temperature")
    assert temperature.moved(5.0, 1, fine=False) == 5.0
    assert temperature.moved(5.0, 1, fine=True) == 5.0
    assert temperature.moved(5.0, -1, fine=True) == 4.99
    assert temperature.moved(5.0, -1, fine=False) == 2.0
    assert temperature.moved(0.0, -1, fine=False) == 0.0


def test_no_limit_lies_beyond_the_longest_reply() -> None:
    (longest,) = (field for field in FIELDS if field.name == "max_tokens")
    assert longest.moved(None, 1, fine=False) is None
    assert longest.moved(None, -1, fine=False) == 8192
    assert longest.moved(8192, 1, fine=False) is None
    assert longest.moved(100, 1, fine=True) == 101
    assert longest.at(1.0) is None


def test_a_seed_is_drawn_kept_and_dropped() -> None:
    (seed,) = (field for field in FIELDS if field.name == "seed")
    assert seed.moved(None, -1, fine=False) is None
    assert 0 <= seed.moved(None, 1, fine=False) < 2**16
    assert (seed.moved(5, 1, fine=False), seed.moved(5, -1, fine=True)) == (6, 4)
    assert seed.moved(0, -1, fine=False) is None


@pytest.mark.parametrize("stop", [(), ("a", "b"), ("\n\n", "\t\\n", "\\", " x ")])
def test_stop_texts_survive_the_editor(stop: tuple[str, ...]) -> None:
    assert stop_from_lines(stop_to_lines(stop)) == stop


@pytest.mark.parametrize("biases", [{}, {7: 1.5, 3: -math.inf}])
def test_biases_survive_the_editor(biases: dict[int, float]) -> None:
    assert bias_from_lines(bias_to_lines(biases)) == biases


@pytest.mark.parametrize("line", ["x", "=", "1=", "1.5=2", "1=x"])
def test_a_line_that_is_no_bias_is_named(line: str) -> None:
    with pytest.raises(OptionError, match="line 3 must be ID=BIAS"):
        bias_from_lines(f"1=2\n\n{line}")


# The preview


async def test_the_preview_follows_the_options() -> None:
    async with drawn(look=DISTRIBUTION.under) as hand:
        await until(lambda: hand.drawer.preview)
        assert hand.drawer.preview == DISTRIBUTION.under(Options())
        hand.go("top_k")
        await hand.press("1", "enter")
        await until(lambda: hand.drawer.preview == DISTRIBUTION.under(Options(top_k=1)))
        assert "next token" in hand.lines[14] and hand.lines[14].endswith("1 of 1,000 kept")
        assert hand.lines[15].startswith("·t0 ") and hand.lines[15].endswith("→  100 %")
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
        go.wait(10)
        return DISTRIBUTION.under(options)

    async with drawn(look=look) as hand:
        await until(lambda: asked == [40])
        assert "reading the prompt" in hand.lines[14]
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
        await until(lambda: "nothing to preview yet" in hand.lines[14])
        hand.drawer.show(DISTRIBUTION.under(Options()))
        assert "kept" in hand.lines[14]


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
    lines = bars.lines(Preview(candidates, 2, 49_152, 1.0, 1.0), 36, 5)
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
    line = bars.line(Candidate(1, text, 0.5, 0.5), 0.5, 36)
    assert line.cell_length == 36
    assert not {"\x1b", "\u202e"} & set(line.plain)
    assert len(line.plain) < 100


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "–"), (1, "100"), (0.5, "50"), (0.0994, "9.9"), (0.0996, "10"), (0.001, "0.1"), (1e-9, "<.1")],
)
def test_probabilities_take_four_letters_at_most(share: float, shown: str) -> None:
    assert bars.percent(share) == shown


def test_the_drawer_loads_nothing_heavy() -> None:
    code = (
        "import sys, chatapp.tui.sampling.drawer as _\n"
        "print({'numpy', 'tokenizers', 'textual.widgets._text_area', 'chatapp.presets'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# Presets


class Picked(Typist):
    """A screen over the page, and what it ended with."""

    def __init__(self, app: Stage, pilot: Pilot[None], results: list[Any]) -> None:
        super().__init__(pilot)
        self.app, self.results = app, results

    async def ended(self) -> Any:
        await self.until(lambda: self.results, "the screen to end")
        return self.results[0]

    def text_of(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).render())

    @property
    def names(self) -> list[str]:
        listed = self.app.screen.query_one(OptionList)
        return [str(listed.get_option_at_index(place).prompt).strip() for place in range(listed.option_count)]

    async def highlight(self, name: str) -> None:
        place = next(place for place, shown in enumerate(self.names) if shown.split("  ")[0] == name)
        listed = self.app.screen.query_one(OptionList)
        listed.focus()
        listed.highlighted = place
        await self.pilot.pause()


@asynccontextmanager
async def opened(screen: Screen[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Picked]:
    app, results = Stage(), list[Any]()
    async with app.run_test(size=size) as pilot:
        app.push_screen(screen, results.append)
        await until(lambda: app.screen is screen and screen.is_mounted)
        await pilot.pause()
        yield Picked(app, pilot, results)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "presets.toml"


async def test_a_preset_is_chosen_seeing_what_it_changes(path: Path) -> None:
    screen = PresetPicker(path, Options(), {"top_p": 0.9, "max_tokens": 100}, look=DISTRIBUTION.under)
    async with opened(screen) as picked:
        assert picked.names == ["default", "precise", "balanced", "creative", "code", "greedy"]
        await picked.highlight("creative")
        shown = picked.text_of("#changes")
        for change in "0.80 → 1.10", "40 → off", "0.90 → off", "off → 0.05":
            assert change in shown
        assert "max_tokens" not in shown
        expected: dict[str, Any] = {
            "temperature": 1.1,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.05,
            "repetition_penalty": 1.05,
        }
        await until(lambda: screen.preview == DISTRIBUTION.under(Options(**expected)))
        assert "of 1,000 kept" in picked.text_of("#changes")
        await picked.press("enter")
        assert await picked.ended() == expected | {"max_tokens": 100}


async def test_only_what_differs_from_the_model_s_defaults_comes_back(path: Path) -> None:
    async with opened(PresetPicker(path, Options(temperature=0.0), {"top_k": 3})) as picked:
        await picked.highlight("greedy")
        assert "temperature" not in picked.text_of("#changes")
        await picked.press("enter")
        assert await picked.ended() == {}


async def test_leaving_chooses_nothing(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {})) as picked:
        assert "these are your options now" in picked.text_of("#changes")
        await picked.press("escape")
        assert await picked.ended() is None


async def test_the_options_are_saved_under_a_name_renamed_and_deleted(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {"top_k": 7})) as picked:
        await picked.press("s", *"mine", "enter")
        assert presets.own(path)["mine"].options == {"top_k": 7}
        assert picked.names[-1].split() == ["mine", "yours"]
        assert "these are your options now" in picked.text_of("#changes")
        await picked.press("r", "2", "enter")
        assert list(presets.own(path)) == ["mine2"]
        await picked.press("d")
        assert "d once more deletes 'mine2'" in picked.text_of("#refusal")
        await picked.press("up", "down")
        assert picked.text_of("#refusal") == ""
        await picked.press("d", "d")
        assert presets.own(path) == {} and len(picked.names) == 6


async def test_a_preset_of_the_same_name_is_replaced_only_when_asked_twice(path: Path) -> None:
    presets.save(path, "mine", {"top_k": 1})
    async with opened(PresetPicker(path, Options(), {"top_k": 7})) as picked:
        await picked.press("s", *"mine", "enter")
        assert "there is a preset 'mine': enter once more replaces it" in picked.text_of("#refusal")
        assert presets.own(path)["mine"].options == {"top_k": 1}
        await picked.press("enter")
        assert presets.own(path)["mine"].options == {"top_k": 7}


async def test_a_preset_s_name_is_refused_where_it_is_typed(path: Path) -> None:
    async with opened(PresetPicker(path, Options(), {})) as picked:
        await picked.press("s", "enter")
        assert "a preset needs a name" in picked.text_of("#refusal")
        await picked.press("escape")
        assert picked.results == [] and not path.exists()
        await picked.highlight("code")
        await picked.press("r")
        assert "'code' is built in and stays" in picked.text_of("#refusal")
        await picked.press("d")
        assert "'code' is built in and stays" in picked.text_of("#refusal")


async def test_a_bad_file_of_presets_is_told_and_the_built_in_ones_are_there(path: Path) -> None:
    path.write_text("[mine]\ntop_k = many")
    async with opened(PresetPicker(path, Options(), {})) as picked:
        assert "cannot read the presets in" in picked.text_of("#refusal")
        assert len(picked.names) == 6
        await picked.press("s", "x", "enter")
        assert "mend or delete the file" in picked.text_of("#refusal")
    assert path.read_text() == "[mine]\ntop_k = many"


# System prompts


async def test_a_system_prompt_is_chosen_by_name(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path)) as picked:
        assert picked.names == ["none", "concise", "programmer", "reviewer", "teacher", "translator"]
        await picked.press("down", "enter")
        assert await picked.ended() == system_prompts.BUILT_IN["concise"]


async def test_none_is_an_empty_text_and_leaving_is_no_choice(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, system_prompts.BUILT_IN["teacher"])) as picked:
        assert picked.app.screen.query_one(OptionList).highlighted == picked.names.index("teacher")
        await picked.highlight("none")
        await picked.press("enter")
        assert await picked.ended() == ""
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("tab", "x", "escape")
        assert await picked.ended() is None


async def test_a_text_is_written_and_used_without_a_name(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path)) as picked:
        await picked.press("tab", *"Be kind", "enter", *"d.", "ctrl+j")
        assert await picked.ended() == "Be kind\nd."
    assert list(tmp_path.iterdir()) == []


async def test_undo_brings_back_what_choosing_a_name_replaced(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        area = picked.app.screen.query_one(TextArea)
        await picked.highlight("concise")
        assert area.text == system_prompts.BUILT_IN["concise"]
        area.focus()
        await picked.press("ctrl+z")
        assert area.text == "Be kind."


async def test_a_system_prompt_is_saved_replaced_and_deleted(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("ctrl+s", *"my own", "enter")
        assert (tmp_path / "my own.md").read_text() == "Be kind.\n"
        assert "my own" in picked.names[2] and picked.names[2].endswith("yours")
        await picked.highlight("teacher")
        await picked.press("ctrl+s", *["backspace"] * 7, *"my own", "enter")
        assert "enter once more replaces it" in picked.text_of("#refusal")
        assert (tmp_path / "my own.md").read_text() == "Be kind.\n"
        await picked.press("enter")
        assert (tmp_path / "my own.md").read_text().startswith("You are a patient teacher")
        await picked.highlight("my own")
        await picked.press("d")
        assert "d once more deletes 'my own'" in picked.text_of("#refusal")
        await picked.press("up", "down")
        assert (tmp_path / "my own.md").exists() and picked.text_of("#refusal") == ""
        await picked.press("d", "d")
        assert not (tmp_path / "my own.md").exists()
        assert "my own" not in picked.names


async def test_what_cannot_be_saved_or_deleted_is_told(tmp_path: Path) -> None:
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.press("ctrl+s", *"../x", "enter")
        assert "'../x' cannot be the name of a system prompt" in picked.text_of("#refusal")
        assert picked.app.screen.query_one(Input).has_focus
        await picked.press("escape")
        await picked.highlight("concise")
        await picked.press("d")
        assert "'concise' is built in and stays" in picked.text_of("#refusal")
        await picked.highlight("none")
        await picked.press("d")
        assert picked.results == []
    assert list(tmp_path.iterdir()) == []


async def test_a_prompt_that_cannot_be_read_leaves_the_text_alone(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes(b"gr\xf6\xdfer")
    async with opened(SystemPromptScreen(tmp_path, "Be kind.")) as picked:
        await picked.highlight("latin")
        assert "is not UTF-8 text" in picked.text_of("#refusal")
        assert picked.app.screen.query_one(TextArea).text == "Be kind."


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)])
async def test_the_screens_fit_any_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    for screen in (
        PresetPicker(tmp_path / "p", Options(), {}),
        SystemPromptScreen(tmp_path),
        LinesScreen("", "", "", str),
    ):
        async with opened(screen, size) as picked:
            box = picked.app.screen.query_one("#box").region
            assert picked.app.screen.region.contains_region(box)
