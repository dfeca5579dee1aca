"""Token heat: what each token is painted in, what the panel tells of it, and what the keys do."""

import math
from dataclasses import replace

import pytest

from chatapp.generation.delta import Alternative, Token
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.insight.panel import TokenPanel
from chatapp.tui.insight.shades import shades
from support.insight_page import SHARES, seen, shown, token, tokens, whole
from support.typist import until


async def test_each_token_is_painted_by_its_probability() -> None:
    view = HeatScreen([token(f"w{i} ", share) for i, share in enumerate((0.95, *SHARES))])
    async with shown(view):
        strip = view.heat.render_line(0)
        found = {segment.text: segment.style for segment in strip}
        variables = view.app.theme_variables
        for place, look in enumerate(shades(variables, plain=False)):
            style = found[f"w{place + 1} "]
            assert style
            assert (style.bgcolor, style.underline, style.bold) == (look.bgcolor, look.underline, look.bold)


async def test_a_token_that_was_guessed_is_in_italics_and_says_so() -> None:
    view = HeatScreen([token("one "), token("two "), replace(token("three "), guessed=True)])
    async with shown(view) as (_, pilot):
        styles = {segment.text: segment.style for segment in view.heat.render_line(0)}
        assert [bool((style := styles[text]) and style.italic) for text in ("two ", "three ")] == [False, True]
        assert "guessed" not in "\n".join(seen(view.panel))
        await pilot.press("right", "right")
        assert "12.5 ms, guessed" in "\n".join(seen(view.panel))


async def test_the_panel_tells_about_the_token_at_the_cursor() -> None:
    view = HeatScreen([token("One"), token(" two", 0.6, seconds=0.021)])
    async with shown(view) as (_, pilot):
        await pilot.press("right")
        text = "\n".join(seen(view.panel))
        for told in ("␣two", "2 of 2", "60.0 %", "log-probability -0.51", "21.0 ms", "␛[2J", "↵", "日本", "all others"):
            assert told in text, told
        assert "✓" in next(line for line in seen(view.panel) if "1 ␣two" in line)


async def test_the_cursor_walks_by_token_row_and_page() -> None:
    view = HeatScreen(tokens(repeat=8))
    async with shown(view) as (_, pilot):
        heat = view.heat
        await pilot.press("right", "right")
        assert heat.cursor == 2
        await pilot.press("down")
        assert heat.flow.place(heat.cursor)[0] == 1
        await pilot.press("up", "left", "left", "left")
        assert heat.cursor == 0
        await pilot.press("end")
        assert heat.cursor == heat.flow.rows[0][-1].token
        await pilot.press("home")
        assert heat.cursor == 0
        await pilot.press("pagedown", "pagedown")
        assert heat.flow.place(heat.cursor)[0] > 30
        assert heat.scroll_offset.y > 0
        await pilot.press("ctrl+end")
        assert heat.cursor == len(view.heat.tokens) - 1
        await pilot.press("right", "ctrl+home", "pageup", "left")
        assert heat.cursor == 0
        assert heat.scroll_offset.y == 0


async def test_down_and_up_pass_a_token_of_many_rows() -> None:
    view = HeatScreen([token("a\n"), token("\n\n\n\n\n"), token("b")])
    async with shown(view) as (_, pilot):
        visited = []
        for key in ("down", "down", "down", "up", "up"):
            await pilot.press(key)
            visited.append(view.heat.cursor)
        assert visited == [1, 2, 2, 1, 0]


async def test_n_finds_the_next_unlikely_token_and_comes_round() -> None:
    view = HeatScreen([token("a"), token("b", 0.4), token("c"), token("d", 0.01)])
    async with shown(view) as (_, pilot):
        found = []
        for key in ("n", "n", "n", "N", "N"):
            await pilot.press(key)
            found.append(view.heat.cursor)
        assert found == [1, 3, 1, 3, 1]


async def test_n_stays_where_nothing_is_unlikely() -> None:
    view = HeatScreen([token("a"), token("b")])
    async with shown(view) as (_, pilot):
        await pilot.press("right", "n")
        assert view.heat.cursor == 1


async def test_a_click_puts_the_cursor_on_a_token() -> None:
    view = HeatScreen([token("one "), token("two "), token("three\n"), token("four")])
    async with shown(view) as (_, pilot):
        await pilot.click(view.heat, offset=(2 + 5, 1))
        assert view.heat.cursor == 1
        await pilot.click(view.heat, offset=(2 + 2, 2))
        assert view.heat.cursor == 3
        await pilot.click(view.heat, offset=(2 + 30, 1))
        assert view.heat.cursor == 2


@pytest.mark.parametrize("keys", [("2",), ("enter", "enter"), ("tab", "down", "up", "enter")])
async def test_an_alternative_is_chosen_by_number_or_in_the_panel(keys: tuple[str, ...]) -> None:
    written = [token("One", 0.95, 1), token(" two", 0.6, 2), token(" three", 0.6, 3)]
    view = HeatScreen(written)
    async with shown(view) as (app, pilot):
        await pilot.press("right", *keys)
        (message,) = app.posted
        assert message
        assert [one.id for one in message] == [1, 901]
        assert message[1].text == " other"
        assert message[1].logprob == pytest.approx(math.log(0.03))


async def test_a_click_chooses_an_alternative() -> None:
    view = HeatScreen([token("One", 0.6)])
    async with shown(view) as (app, pilot):
        line = next(i for i, text in enumerate(seen(view.panel)) if "3 ␛[2J" in text)
        await pilot.click(view.panel, offset=(10, line))
        (message,) = app.posted
        assert message
        assert message[0].text == "\x1b[2J"
        await pilot.click(view.panel, offset=(10, line + 5))
        assert len(app.posted) == 1


async def test_there_is_nothing_to_choose_where_nothing_was_kept() -> None:
    view = HeatScreen([token("One", None), token(" two", None)])
    async with shown(view) as (app, pilot):
        await pilot.press("1", "n", "enter", "down", "enter")
        assert app.posted == []
        assert "no probabilities were saved with this answer" in "\n".join(seen(view.summary))
        assert "no alternatives were saved" in "\n".join(seen(view.panel))


async def test_escape_leaves_the_panel_then_the_heat() -> None:
    view = HeatScreen(tokens())
    async with shown(view) as (app, pilot):
        await pilot.press("enter")
        assert view.panel.has_focus
        await pilot.press("escape")
        assert view.heat.has_focus
        assert app.posted == []
        await pilot.press("escape")
        assert app.posted == [None]


async def test_while_it_grows_escape_is_left_to_whoever_stops_the_model() -> None:
    view = HeatScreen(tokens(), growing=lambda: True)
    async with shown(view) as (app, pilot):
        await pilot.press("escape")
        assert app.posted == []
        await pilot.press("t")
        assert app.posted == [None]


async def test_the_end_is_followed_only_from_the_end() -> None:
    written = tokens(repeat=10)
    known = written[:200]
    view = HeatScreen(known, growing=lambda: True)
    async with shown(view) as (_, pilot):
        heat = view.heat
        assert heat.cursor == 199
        assert heat.is_vertical_scroll_end
        known += written[200:400]
        await until(lambda: heat.is_vertical_scroll_end and heat.cursor == 399)
        await pilot.press("ctrl+home")
        known += written[400:]
        await until(lambda: view.heat.tokens == written)
        assert heat.scroll_offset.y == 0
        assert heat.cursor == 0
        assert f"1 of {len(written)}" in "\n".join(seen(view.panel))


async def test_heat_begins_empty_and_grows() -> None:
    known: list[Token] = []
    view = HeatScreen(known, growing=lambda: True)
    async with shown(view) as (app, pilot):
        await pilot.press("right", "down", "end", "n", "1", "pagedown", "ctrl+end")
        await pilot.click(view.heat, offset=(5, 5))
        assert "no tokens yet" in "\n".join(seen(view.panel))
        known += tokens()[:3]
        await until(lambda: "3 of 3" in "\n".join(seen(view.panel)))
        assert "perplexity" in "\n".join(seen(view.summary))


async def test_the_summary_says_how_sure_the_model_was() -> None:
    view = HeatScreen([token("a", 0.5), token("b", 0.25), token("c", 1.0), token("d", 1.0)])
    async with shown(view, (120, 24)):
        line = seen(view.summary)[0]
        assert "1.68 perplexity   25 % below 50 %   -0.52 mean log-probability" in line
        assert line.endswith("≥ 90  ≥ 70  ≥ 50  ≥ 20  ≥ 5  < 5 %")


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 40)])
async def test_the_panel_is_beside_the_text_or_below_it(size: tuple[int, int]) -> None:
    view = HeatScreen(tokens())
    async with shown(view, size) as (app, pilot):
        beside = view.panel.region.y == view.heat.region.y
        assert beside == (size[0] >= 76)
        assert "all others" in whole(app)
        await pilot.resize_terminal(200, 60)
        await until(lambda: view.panel.region.y == view.heat.region.y)
        assert view.heat.flow.width == view.heat.scrollable_content_region.width


async def test_the_theme_can_change_while_it_is_shown() -> None:
    view = HeatScreen(tokens())
    async with shown(view) as (app, pilot):
        app.theme = "paper"
        await pilot.pause()
        style = list(view.heat.render_line(0))[-1].style
        assert style
        assert style.bgcolor
        assert style.bgcolor.get_truecolor() == (0xFB, 0xFA, 0xF6)


async def test_the_terminals_sixteen_colours_are_enough() -> None:
    view = HeatScreen(tokens())
    async with shown(view, theme="sixteen") as (_, pilot):
        await pilot.press("right", "enter")
        styles = {str(segment.style) for y in range(9) for segment in view.heat.render_line(y)}
        assert not any("#" in style for style in styles), styles
        assert any("reverse" in style for style in styles)


async def test_nothing_a_model_wrote_reaches_the_terminal_as_control() -> None:
    view = HeatScreen([token("\x1b[2J\x9b\u202e", 0.3, 1), token("[red]markup[/]", 0.3, 2)])
    async with shown(view) as (app, _):
        text = whole(app)
        assert "\x1b" not in text and "\x9b" not in text and "\u202e" not in text
        assert "[red]markup[/]" in text


def test_the_panel_knows_the_name_of_a_token_without_text() -> None:
    end = Token(2, "", math.log(0.9), (Alternative(2, "<|im_end|>", math.log(0.9)),), 0.01)
    panel = TokenPanel()
    panel.token = end
    assert panel.marked == 0
