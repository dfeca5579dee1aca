"""The drawer of sampling options: what is typed there, what is refused, and how fresh its preview is."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

from textual import events

from chatapp.conversation import Setup
from chatapp.generation import Message, Options
from chatapp.generation.decoding.preview import Preview
from chatapp.tui.sampling.drawer import SamplingDrawer
from chatapp.tui.sampling.fields import FIELDS, LABEL
from chatapp.tui.sampling.preview import Look
from support.patience import PATIENCE
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine


@asynccontextmanager
async def drawn(
    chosen: Mapping[str, Any] | None = None,  # Any: what Options takes
    *,
    look: Look | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[tuple[Driver, SamplingDrawer]]:
    """The drawer beside a conversation."""
    async with running(ScriptedEngine(), size=size) as driver:
        driver.screen.drawer = SamplingDrawer(Options(), chosen or {}, look=look)
        await driver.screen.middle.mount(driver.screen.drawer)
        driver.screen.drawer.focus()
        await driver.pilot.pause()
        yield driver, driver.screen.drawer


async def test_a_value_in_the_making_survives_a_look_elsewhere() -> None:
    async with drawn() as (driver, drawer):
        await driver.press("1", ".")
        driver.pane.box.focus()
        await driver.pilot.pause()
        drawer.focus()
        await driver.press("5", "enter")
        assert drawer.chosen == {"temperature": 1.5}


async def test_why_a_value_is_refused_is_seen_on_a_low_screen() -> None:
    async with drawn(size=(40, 10)) as (driver, drawer):
        await driver.press("1", "0", "1", "enter")
        await driver.pilot.pause()
        await driver.until(lambda: "temperature must be 0 (greedy) or" in driver.picture)
        await driver.until(lambda: "▸temperature" in driver.picture)


async def test_a_screen_that_becomes_higher_shows_the_options_above_too() -> None:
    async with drawn(size=(80, 10)) as (driver, drawer):
        await driver.press("end")
        await driver.until(lambda: f"▸{FIELDS[-1].label}" in driver.picture and FIELDS[0].label not in driver.picture)
        await driver.pilot.resize_terminal(80, 60)
        await driver.pilot.pause()
        await driver.until(lambda: f"▸{FIELDS[-1].label}" in driver.picture and FIELDS[0].label in driver.picture)


async def test_what_was_chosen_though_it_is_the_default_goes_with_d() -> None:
    async with drawn({"temperature": Options().temperature, "seed": None}) as (driver, drawer):
        await driver.until(lambda: "2 changed" in driver.picture)
        await driver.press("d")
        assert drawer.chosen == {"seed": None}
        drawer.action_walk(8)
        await driver.press("d")
        assert drawer.chosen == {}


async def test_the_preview_is_of_what_was_written_meanwhile() -> None:
    asked, go = list[Options](), Event()
    go.set()

    def look(options: Options) -> Preview:
        asked.append(options)
        go.wait(PATIENCE)
        return Preview((), 1, 2, 1.0, 1.0)

    async with drawn(look=look) as (driver, drawer):
        await driver.until(lambda: drawer.preview)
        go.clear()
        driver.pane.box.focus()
        await driver.type("more")
        drawer.focus()
        await driver.until(lambda: len(asked) == 2, "another preview")
        assert drawer.preview is None
        go.set()
        await driver.until(lambda: drawer.preview)


async def test_another_conversation_does_not_show_the_preview_of_the_one_before() -> None:
    go = Event()
    go.set()

    def look(options: Options) -> Preview:
        go.wait(PATIENCE)
        return Preview((), 1, 2, 1.0, 1.0)

    async with drawn(look=look) as (driver, drawer):
        await driver.until(lambda: drawer.preview)
        go.clear()
        drawer.take(Options(), {}, "stop")
        await driver.pilot.pause()
        await driver.until(lambda: "reading the prompt" in driver.picture)
        go.set()


async def test_a_slider_dragged_quickly_goes_to_its_end_and_its_label_drags_nothing() -> None:
    async with drawn(size=(120, 40)) as (driver, drawer):
        pilot, ladder = driver.pilot, FIELDS[0].ladder
        await pilot.mouse_down(drawer, offset=(LABEL + 3, 1))
        assert drawer.chosen
        await pilot.hover(drawer, offset=(1, 3))
        assert drawer.options.temperature == ladder[0] == 0.0
        await pilot.hover(drawer, offset=(36, 2))
        assert drawer.options.temperature == ladder[-1]
        await pilot.mouse_up(drawer, offset=(36, 2))
        await pilot.hover(drawer, offset=(LABEL + 3, 1))
        assert drawer.options.temperature == ladder[-1]
        await pilot.mouse_down(drawer, offset=(3, 1))
        await pilot.hover(drawer, offset=(LABEL + 3, 1))
        assert drawer.options.temperature == ladder[-1]


async def test_the_wheel_walks_the_options_and_takes_what_was_being_typed() -> None:
    async with drawn(size=(80, 14)) as (driver, drawer):
        await driver.press("1", ".", "5")
        for _ in range(len(FIELDS) + 3):
            drawer.post_message(wheel(events.MouseScrollDown))
        await driver.pilot.pause()
        assert drawer.options.temperature == 1.5 and drawer.field == FIELDS[-1]
        await driver.until(lambda: f"▸{FIELDS[-1].label}" in driver.picture)
        drawer.post_message(wheel(events.MouseScrollUp))
        await driver.pilot.pause()
        assert drawer.field == FIELDS[-2]


def wheel(turned: type[events.MouseEvent]) -> events.MouseEvent:
    """A step of the wheel over the drawer."""
    return turned(None, 2, 2, 0, 0, 0, shift=False, meta=False, ctrl=False)


async def test_a_template_without_system_prompts_is_previewed_as_it_is_asked() -> None:
    engine = ScriptedEngine(can_chat=True, takes_system=False)
    async with running(engine) as driver:
        driver.screen.view.dialogue.change(Setup(system="Be brief."))
        assert driver.pane.chat_page.prompt(engine, lambda: "") == ()
        told = driver.pane.chat_page.prompt(engine, lambda: "Hello")
        assert told == [Message("user", "Be brief.\n\nHello")]
