"""Calls of tools on the screen: asked about, refused, stopped, folded, and never by a key that was meant otherwise."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events

from chatapp.conversation.tools.connection import CONNECTIONS
from chatapp.settings.tool_servers import ToolServer
from chatapp.tui.chat import calls
from chatapp.tui.chat.tool_result import ToolResult
from support.screen_driver import Driver, beginning, started
from support.scripted_engine import ScriptedEngine

pytest.importorskip("mcp")
HOSTILE = str(Path(__file__).parents[1] / "support" / "hostile_tool_server.py")
CALL = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "B\\u001b[2Jern"}}\n</tool_call>'


@asynccontextmanager
async def using(way: str = "good", *turns: str, history: Path | None = None, call: str = CALL) -> AsyncIterator[Driver]:
    """The screen, in a conversation that uses a server, hostile in a way."""
    engine = ScriptedEngine("That is all.", can_chat=True, turns=[call, *turns])
    workspace = beginning(engine, "chatty", history=history)
    servers = {"sky": ToolServer("sky", (sys.executable, HOSTILE, way))}
    workspace.chosen = replace(workspace.chosen, mcp=servers)
    async with started(workspace, model="chatty", size=(90, 30)) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue, "the model to open")
        await driver.pilot.pause()
        await driver.type("/tools on\n")
        await driver.until(lambda: toolset(driver).offered, "the tools")
        yield driver
    CONNECTIONS.close()


def toolset(driver: Driver) -> Any:
    assert driver.pane.dialogue
    return driver.pane.dialogue.toolset


async def asked(driver: Driver) -> None:
    await driver.until(lambda: driver.pane.calls.asked and driver.pane.calls.has_focus, "the question")
    driver.pane.calls.quiet = 0.0
    await driver.pilot.pause()


async def ended(driver: Driver, count: int) -> None:
    await driver.until(lambda: len(driver.said) == count and not driver.pane.busy, "the end")


async def test_a_call_is_asked_about_shown_folded_and_opened() -> None:
    async with using() as driver:
        assert "tools: sky" in driver.pane.status.tools
        await driver.type("Weather?\n")
        await asked(driver)
        await driver.until(lambda: "The model calls weather" in driver.picture)
        picture = driver.picture
        assert "The model calls weather of sky" in picture and "for this conversation" in picture
        assert '"city": "B\\u001b[2Jern"' in picture and "\x1b" not in picture
        await driver.press("o")
        await ended(driver, 4)
        assert [role for role, _ in driver.said] == ["user", "assistant", "tool", "assistant"]
        await driver.until(lambda: "That is all." in driver.picture)
        picture = driver.picture
        assert "▸ weather {" in picture and "tool_call" not in picture and "That is all." in picture
        assert "sky over" not in picture
        (result,) = driver.pane.query(ToolResult)
        result.focus()
        await driver.press("enter")
        await driver.until(lambda: "␛[31msky over" in driver.picture)
        assert not driver.pane.calls.display


async def test_a_click_on_a_choice_takes_it() -> None:
    async with using() as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        rows = driver.picture.splitlines()
        row = next(place for place, line in enumerate(rows) if "for this conversation" in line)
        await driver.pilot.click(offset=(rows[row].index("r refuse"), row))
        await ended(driver, 4)
        assert "refused" in driver.said[2][1]


async def test_long_arguments_scroll_above_the_choices() -> None:
    long = json.dumps({"name": "weather", "arguments": {"city": "Bern", "days": list(range(200))}})
    async with using("good", call=f"<tool_call>{long}</tool_call>") as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        assert "o once" in driver.picture and '"city": "Bern"' in driver.picture
        await driver.press("pagedown", "pagedown")
        await driver.until(lambda: '"city": "Bern"' not in driver.picture, "the arguments to scroll")
        await driver.until(lambda: "o once" in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: not driver.pane.busy, "the end")


async def test_what_somebody_types_meanwhile_allows_nothing_however_late_it_is_heard() -> None:
    async with using() as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        for number, key in enumerate(("o", "c", "enter", "r", "o"), start=1):
            pressed = events.Key(key, "\r" if key == "enter" else key)
            pressed.time = calls.QUIET * number / 2
            driver.app.post_message(pressed)
        await driver.pilot.pause()
        assert driver.pane.calls.asked and not driver.pane.calls.asked.done()
        await driver.press("escape")
        await driver.until(lambda: not driver.pane.busy, "the end")
        assert [role for role, _ in driver.said] == ["user", "assistant", "tool"]
        await driver.until(lambda: "refused" in driver.picture and driver.pane.prompt.has_focus)


async def test_what_was_said_is_in_each_frame_when_the_question_below_goes() -> None:
    async with using() as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        frames: list[str] = []
        driver.screen.screen_layout_refresh_signal.subscribe(driver.pane, lambda screen: frames.append(driver.picture))
        await driver.press("escape")
        await driver.until(lambda: "refused" in driver.picture)
        assert frames and all("Weather?" in frame for frame in frames)


async def test_a_refused_call_lets_the_model_go_on_and_an_allowed_one_is_asked_about_no_more() -> None:
    async with using("good", "Well.", CALL, "Fine.", CALL) as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        await driver.press("r")
        await ended(driver, 4)
        await driver.type("Now?\n")
        await asked(driver)
        await driver.press("c")
        await ended(driver, 8)
        await driver.type("Again?\n")
        await ended(driver, 12)
        assert [text for role, text in driver.said if role == "tool"][0].startswith("The user has refused")


async def test_a_call_that_hangs_is_stopped_and_messages_wait_meanwhile() -> None:
    async with using("hangs") as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        await driver.press("o")
        await driver.until(lambda: driver.pane.calls.running, "the call")
        assert "calling weather" in driver.state
        await driver.type("And then?\n")
        assert driver.pane.outbox.queue
        driver.pane.stop()
        await ended(driver, 5)
        assert driver.said[2] == ("tool", "The user has stopped this call.")
        assert driver.said[4] == ("assistant", "That is all.")


async def test_a_server_that_dies_is_told_and_a_conversation_opened_again_shows_all_of_it(tmp_path: Path) -> None:
    async with using("dies", history=tmp_path / "history.db") as driver:
        await driver.type("Weather?\n")
        await asked(driver)
        await driver.press("o")
        await ended(driver, 4)
        await driver.until(lambda: "failed" in driver.picture)
    workspace = beginning(ScriptedEngine("No.", can_chat=True), "chatty", history=tmp_path / "history.db")
    async with started(workspace, model="", size=(90, 30)) as driver:
        await driver.until(lambda: len(driver.said) == 4 and driver.pane.opened, "the conversation")
        await driver.until(lambda: "▸ weather" in driver.picture, "the result")
        assert "tool_call" not in driver.picture and calls.QUIET
