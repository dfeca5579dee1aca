"""The sampling drawer: keys and mouse change values, and only what differs from the defaults is told."""

import math
from typing import Any

import pytest
from textual import events
from textual.widgets import Static, TextArea

from chatapp.commands.commands import PRESETS
from chatapp.generation import OptionError, Options
from chatapp.generation.options import BEAM_OPTIONS, GRAMMARS, KNOBS
from chatapp.tui.sampling.drawer import SamplingDrawer
from chatapp.tui.sampling.fields import (
    FIELDS,
    Field,
    bias_from_lines,
    bias_to_lines,
    measure_slider,
    stop_from_lines,
    stop_to_lines,
)
from chatapp.tui.sampling.lines_screen import LinesScreen
from support.sampling_page import DISTRIBUTION, ROWS, drawn
from support.typist import until

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
        assert hand.app.around.asked == ["sampling"]


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


async def test_what_the_answer_must_be_is_written_below_its_name() -> None:
    async with drawn({"seed": 3}) as hand:
        hand.go("answer")
        assert hand.row("answer is").endswith("any text ")
        await hand.press("right")
        assert hand.chosen == {"seed": 3, "json_object": True} and hand.row("answer is").endswith("JSON•")
        await hand.press("enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        area, refusal = hand.app.screen.query_one(TextArea), hand.app.screen.query_one("#refusal", Static)
        assert area.text == "json_object"
        for wrong, reason in (
            ("regexp", "the first line must be json_schema, json_object, regex, grammar, choice or empty"),
            ("regex", "write its value below regex"),
            ("regex\n(", "regex is wrong at character 1: unclosed group"),
            ('json_schema\n{"type": "strin"}', "json_schema at #: Invalid type: strin"),
        ):
            area.text = wrong
            await until(lambda reason=reason: reason in str(refusal.content))  # type: ignore[misc]
        area.text = "choice\nyes\nno\\n"
        await hand.press("ctrl+j")
        await until(lambda: hand.chosen == {"seed": 3, "choice": ("yes", "no\n")})
        assert hand.row("answer is").endswith("a choice•")
        await hand.press("enter")
        await until(lambda: isinstance(hand.app.screen, LinesScreen))
        assert hand.app.screen.query_one(TextArea).text == "choice\nyes\nno\\n"
        await hand.press("escape", "d")
        await until(lambda: hand.chosen == {"seed": 3})


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
        assert hand.app.around.asked == [PRESETS]


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
        await hand.pilot.hover(drawer, offset=(1 + 13 + measure_slider(36) - 1, row))
        await hand.pilot.mouse_up(drawer, offset=(1 + 13 + measure_slider(36) - 1, row))
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
        assert hand.drawer.field.name == "answer"
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


@pytest.mark.parametrize("field", [field for field in FIELDS if field.ladder], ids=lambda field: field.name)
def test_every_stop_of_a_slider_is_an_allowed_value(field: Field) -> None:
    for value in field.ladder:
        allowed: dict[str, Any] = {field.name: value}
        assert Options(**allowed)
    assert [field.at(field.share(value)) for value in field.ladder[:-1]] == list(field.ladder[:-1])
    assert (field.share(field.ladder[0]), field.share(field.ladder[-1])) == (0, 1)
    assert list(field.ladder) == sorted(set(field.ladder))


def test_the_drawer_has_every_option_but_those_that_belong_elsewhere() -> None:
    rare = {name for name, knob in KNOBS.items() if knob.rare}
    texts = {"dry_breakers", "dry_whole_words", "bad_words", "sampler_order", "speculate", "tools", *GRAMMARS}
    elsewhere = {"n", "logprobs", "think", *BEAM_OPTIONS} | rare | texts
    assert {field.name for field in FIELDS} == set(vars(Options())) - elsewhere | {"when_full", "answer"}


def test_values_beyond_the_slider_are_kept_and_come_back_step_by_step() -> None:
    (temperature,) = (field for field in FIELDS if field.name == "temperature")
    assert temperature.move(5.0, 1, fine=False) == 5.0
    assert temperature.move(5.0, 1, fine=True) == 5.0
    assert temperature.move(5.0, -1, fine=True) == 4.99
    assert temperature.move(5.0, -1, fine=False) == 2.0
    assert temperature.move(0.0, -1, fine=False) == 0.0


def test_no_limit_lies_beyond_the_longest_reply() -> None:
    (longest,) = (field for field in FIELDS if field.name == "max_tokens")
    assert longest.move(None, 1, fine=False) is None
    assert longest.move(None, -1, fine=False) == 8192
    assert longest.move(8192, 1, fine=False) is None
    assert longest.move(100, 1, fine=True) == 101
    assert longest.at(1.0) is None


def test_a_seed_is_drawn_kept_and_dropped() -> None:
    (seed,) = (field for field in FIELDS if field.name == "seed")
    assert seed.move(None, -1, fine=False) is None
    assert 0 <= seed.move(None, 1, fine=False) < 2**16
    assert (seed.move(5, 1, fine=False), seed.move(5, -1, fine=True)) == (6, 4)
    assert seed.move(0, -1, fine=False) is None


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
