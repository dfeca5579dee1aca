"""Models that no conversation needs just now leave the memory, and come back when one does."""

import gc
from pathlib import Path
from weakref import ref

from chatapp.tui.engines import LIMIT
from chatapp.workspace import Opened
from support.screen_driver import ask, beginning, started
from support.scripted_engine import Open, ScriptedEngine


async def test_hidden_conversations_keep_no_more_models_than_there_is_room_for(tmp_path: Path) -> None:
    alive = list[ref[ScriptedEngine]]()

    def opens(name: str) -> Open:
        def open_model(*tell: object) -> Opened:
            engine = ScriptedEngine("Yes.", can_chat=True)
            alive.append(ref(engine))
            return Opened(engine, name, 1, 0.1)

        return open_model

    workspace = beginning(ScriptedEngine(can_chat=True), "m1", home=tmp_path)
    workspace.opens = opens
    workspace.find_model = lambda name: name  # type: ignore[method-assign]
    async with started(workspace) as driver:
        for name in ("m1", "m2", "m3"):
            await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
            if name != "m1":
                await driver.press("ctrl+n")
                driver.screen.view.use_model(name)
            await driver.until(lambda: driver.pane.opened and driver.pane.opened.name == name)  # noqa: B023
            await ask(driver, "why?")
        await driver.until(lambda: gc.collect() >= 0 and len([one for one in alive if one()]) == LIMIT, "one to go")
        first = driver.screen.panes[0]
        assert driver.screen.history
        await driver.screen.open_conversation(driver.screen.history.get(first.number))
        await driver.until(lambda: driver.pane is first and first.opened and first.opened.name == "m1")
        await ask(driver, "and now?")
