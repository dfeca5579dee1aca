"""What is told in a window of its own can be read to its end, on a small terminal too."""

import pytest

from chatapp.commands.actions import explain
from chatapp.tui.widgets.windows import NoteScreen
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine


@pytest.mark.parametrize("size", [(80, 24), (80, 14)])
async def test_every_command_has_a_line_of_its_own_and_the_last_one_is_reached(size: tuple[int, int]) -> None:
    async with running(ScriptedEngine("Because.", can_chat=True), size=size) as driver:
        await driver.type("/?\n")
        await driver.until(lambda: isinstance(driver.app.screen, NoteScreen) and "esc goes back" in driver.picture)
        seen: set[str] = set()
        for _ in range(len(explain().splitlines())):
            seen |= {line.strip(" │█▅▄▂▁▆▇▃") for line in driver.picture.splitlines()}
            await driver.press("down")
            await driver.pilot.pause()
        assert set(explain().splitlines()) <= seen
