"""The app as a window has it: a process that tells the window what it cannot see."""

import asyncio
import json
import sys
from pathlib import Path

from textual import events
from textual.app import App
from websockets.asyncio.client import ClientConnection

from chatapp.desktop.screen import WindowDriver
from support.patience import PATIENCE
from support.typist import until
from support.windows import OpenWindow, drawn, told, window

SCRIPTED = (sys.executable, "-m", "support.window_screen", "0.01")


def test_what_the_page_says_when_the_app_has_ended_is_left_without_a_word() -> None:
    driver, loop = object.__new__(WindowDriver), asyncio.new_event_loop()
    loop.close()
    driver._app, driver._loop = App[None](), loop
    driver.send_message(events.AppBlur())


async def say(client: ClientConnection, **message: object) -> None:
    await client.send(json.dumps(message))


async def ended(one: OpenWindow) -> int:
    return await asyncio.wait_for(asyncio.shield(one.served), PATIENCE)


async def test_a_conversation_in_a_window(tmp_path: Path) -> None:
    async with window(tmp_path, command=SCRIPTED) as one, one.enter() as client:
        assert (await told(client, "colours"))["background"] == "#0f121a"
        await drawn(client, "ready")
        await say(client, type="scheme", dark=False)  # the system is a light one, and no theme was chosen
        assert (await told(client, "colours"))["background"] != "#0f121a"

        (tmp_path / "a file.md").write_text("text")
        one.face.places["a file.md"] = tmp_path / "a file.md"
        await say(client, type="file", name="a file.md", text="text")
        await drawn(client, "a file.md")
        (tmp_path / "dropped").write_text("in the way")
        await say(client, type="blur")
        await say(client, type="file", name="b\x1b[2J.md", text="text")
        await until(lambda: one.face.announced)
        assert "cannot be saved" in one.face.announced[0] and "\x1b" not in one.face.announced[0]
        await say(client, type="focus")
        await client.send(b"\x15")  # clears the line
        await client.send(b"\x1b[200~hello \x1b[31m\x11")  # no key comes of a paste, also where it is divided
        await client.send(b"\x1b[0m\x1b[201~")
        await client.send(b"\r")
        await drawn(client, "writing")

        one.bridge.close()
        await drawn(client, "Quit now?")
        await until(lambda: one.bridge.busy)
        await client.send(b"n")
        one.bridge.close()
        await drawn(client, "Quit now?")
        one.bridge.close()  # who insists, leaves
        assert await ended(one) == 0
        assert not one.bridge.complaints


async def test_a_page_that_comes_anew_sees_the_whole_screen_and_the_app_ends_with_its_window(tmp_path: Path) -> None:
    async with window(tmp_path, command=SCRIPTED) as one:
        async with one.enter() as client:
            await drawn(client, "ready")
        async with one.enter() as client:
            screen = await drawn(client, "ready")
            assert b"\x1b[?1006h" in screen and b"sk the model" in screen  # the cursor is on the first letter
            await one.bridge.end()  # the end of its input, as when the window's process was killed
            assert await ended(one) == 0
