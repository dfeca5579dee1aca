"""A model on a server answers on the screen, which says where text goes, and lists it among the models."""

from pathlib import Path

from chatapp.remote import remotes
from chatapp.remote.address import Remote
from chatapp.remote.opening import open_remote
from chatapp.tui.models.screen import ModelsScreen
from chatapp.workspace import Opened
from support.recorded_streams import PIECES, TEXT, chunk, serve
from support.remote_server import Recorded
from support.screen_driver import beginning, started
from support.scripted_engine import ScriptedEngine


async def test_an_answer_of_a_server_comes_with_figures_and_with_where_text_goes(tmp_path: Path) -> None:
    broken = Recorded.events(*(chunk({"content": piece}) for piece in PIECES), done=False)
    with serve("vllm") as server:
        engine, name = open_remote(tmp_path, "", server.url)
        start = beginning(ScriptedEngine(can_chat=True), name, history=tmp_path / "history.db")
        opened = Opened(engine, "m@desk", 0, 0.1, leaves="desk.example, unencrypted")
        start.opens = lambda name: lambda report, warn: opened
        async with started(start) as driver:
            await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
            await driver.until(lambda: "Text goes to desk.example, unencrypted." in driver.picture)
            await driver.type("Say it.\n")
            await driver.answered()
            shown = ("text goes to desk.example, unencrypted · vllm", "4,096")
            await driver.until(lambda: all(text in driver.picture for text in shown))
            server.answers["/v1/chat/completions"] = [broken]
            await driver.type("Again.\n")
            await driver.until(lambda: len(driver.said) == 4 and not driver.writing)
            await driver.until(lambda: "without an end mark" in " ".join(driver.picture.split()))
        assert [text for _, text in driver.said] == ["Say it.", TEXT, "Again.", TEXT]


async def test_models_of_servers_are_listed_and_nobody_is_asked(home: Path, tmp_path: Path) -> None:
    engine = ScriptedEngine(can_chat=True)
    with serve("vllm") as server:
        start = beginning(engine, "chatty", history=tmp_path / "history.db")
        async with started(start) as driver:
            await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
            remotes.add(driver.screen.workspace.home, Remote("desk", server.url, "openai", ("m",)))
            await driver.press("ctrl+o")
            await driver.until(lambda: "On servers · 1" in driver.picture and "m@desk" in driver.picture)
            assert not server.requests
            assert isinstance(driver.app.screen, ModelsScreen)
            listing = driver.app.screen.listing
            place = next(at for at, row in enumerate(listing.rows) if getattr(row, "name", "") == "m@desk")
            listing.go_to(place)
            await driver.press("enter")
            await driver.until(lambda: driver.pane.choice.model == "m@desk")
