"""Drives the screen in tests: an app with a scripted engine, its keyboard, and patience."""

import argparse
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import TIMEOUT_MAX

from textual.pilot import Pilot

from chatapp.conversation import Setup
from chatapp.history import History
from chatapp.models import suggestion
from chatapp.placement.measuring import Measuring
from chatapp.placement.record import Measurement
from chatapp.placement.selection import PlacementOptions
from chatapp.settings.settings import Settings
from chatapp.tui.app import ChatApp, run
from chatapp.tui.chat.completion_page import EXAMPLE as EXAMPLE
from chatapp.tui.chat.pane import Pane
from chatapp.tui.chat.status import Figures
from chatapp.workspace import Opened, Workspace
from model_store import Progress, Store
from support.scripted_engine import ANSWER, FIBONACCI, Open, ScriptedEngine, opener
from support.typist import Typist


class Driver(Typist):
    """A running app: its screen, its keyboard, and patience."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.screen = app, app.chat_screen

    @property
    def pane(self) -> Pane:
        return self.screen.pane

    @property
    def figures(self) -> Figures:
        """Of the reply that is being written, or was written last."""
        return self.pane.newest.figures if self.pane.newest else Figures()

    async def answered(self, times: int = 1) -> None:
        """Until so many replies have ended since the app began."""
        await self.until(lambda: self.figures.tokens and not self.writing, "the reply to end")

    async def wrote(self, tokens: int) -> None:
        await self.until(
            lambda: self.figures.tokens == tokens and not (self.pane.newest and self.pane.newest.stale),
            f"{tokens} tokens",
        )

    @property
    def text(self) -> str:
        return self.pane.completion_page.text

    @property
    def state(self) -> str:
        return self.pane.status.state

    @property
    def writing(self) -> bool:
        """Whether a reply is being written, or how it ended is still to be told."""
        return bool(self.pane.reply) or self.state.startswith(("● reading", "● writing", "● summarising"))

    @property
    def said(self) -> list[tuple[str, str]]:
        """The branch that is shown: who said what."""
        return [(one.role, one.text) for one in self.pane.dialogue.branch()] if self.pane.dialogue else []

    def written_by_model(self) -> str:
        """What the notebook shows as the model's."""
        notebook = self.pane.completion_page
        written = zip(notebook.text, "".join(notebook.authors), strict=True)
        return "".join(character for character, author in written if author == "m")


class ScriptedWorkspace(Workspace):
    """A home of its own, in which one engine stands for whatever model is asked for."""

    def __init__(self, home: Path, chosen: Settings, opens: Open, history: Path | None) -> None:
        super().__init__(home)
        self.chosen = chosen
        self.opens: Callable[[str], Open] = lambda name: opens
        self.opens_history: Callable[[], History] = lambda: History(history)
        self.measures: Callable[[str, Callable[[list[Measurement]], object]], Measuring] = self.be_quiet

    def be_quiet(self, name: str, tell: Callable[[list[Measurement]], object]) -> Measuring:
        """A thread that waits longer than any run of all tests."""
        return Measuring(self.open_store(), name, PlacementOptions(), after=TIMEOUT_MAX, on_end=tell)

    def read_settings(self) -> Settings:
        return self.chosen

    def open_store(self) -> Store:
        return Store(self.home / "models")

    def open_model(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        *,
        on_progress: Progress | None = None,
        on_fallback: Callable[[str], object] = lambda reason: None,
        draft: str = "",
    ) -> Opened:
        return self.opens(name)(on_progress or (lambda step, share: None), on_fallback)

    def measure(
        self,
        name: str,
        placement: PlacementOptions | None = None,
        on_end: Callable[[list[Measurement]], object] = lambda ranking: None,
    ) -> Measuring:
        return self.measures(name, on_end)

    def open_history(self, patience: float | None = None) -> History:
        history = self.opens_history()
        if patience is not None:
            history.wait_at_most(patience)
        return history

    def peak_memory(self) -> int:
        return 118_000_000


def beginning(
    open_model: Open | ScriptedEngine,
    model: str = "builtin",
    *,
    history: Path | None = None,
    home: Path | None = None,
    theme: str = "midnight",
) -> ScriptedWorkspace:
    """A user's home as an app finds it: one engine for whatever model is asked for, and perhaps a history.

    Without a `home`, it has one that goes with it.
    """
    opens = opener(open_model) if isinstance(open_model, ScriptedEngine) else open_model
    if home:
        home.mkdir(parents=True, exist_ok=True)
        history = home / "history.db"
    place = home or Path(tempfile.mkdtemp(prefix="chatapp-home-"))
    suggestion.remember_answer(place / "offer.json")  # nothing is offered, whatever this machine could run
    workspace = ScriptedWorkspace(place, Settings(model, theme, history=bool(history)), opens, history)
    if not home:
        weakref.finalize(workspace, shutil.rmtree, place, ignore_errors=True)
    return workspace


async def ask(driver: Driver, *texts: str) -> None:
    """Have messages answered, one after the other."""
    for text in texts:
        before = len(driver.said)
        await driver.type(f"{text}\n")
        await driver.until(lambda: len(driver.said) == before + 2 and not driver.writing, f"an answer to {text}")  # noqa: B023


@asynccontextmanager
async def started(
    workspace: Workspace, *, model: str = "", setup: Setup | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Driver]:
    """The app as it begins."""
    app = ChatApp(workspace, model=model, setup=setup)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)
        if app.chat_screen.history:
            app.chat_screen.shut_down(5)
            app.chat_screen.history.close()


@asynccontextmanager
async def running(
    engine: ScriptedEngine,
    *,
    size: tuple[int, int] = (80, 24),
    theme: str = "midnight",
    history: Path | None = None,
    resume: bool = True,
) -> AsyncIterator[Driver]:
    """The app with an open engine."""
    name = "chatty" if engine.can_chat else "builtin"
    workspace = beginning(engine, name, history=history, theme=theme)
    async with started(workspace, model="" if resume else name, size=size) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue, "the model to open")
        await driver.pilot.pause()
        yield driver
        engine.go.set()


def main() -> None:
    """The app with a scripted engine: `[chat] [--home HOME] [--delay SECONDS] [--says FILE] [--times N]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", nargs="?", choices=("chat", "completion"), default="completion")
    parser.add_argument("--home", type=Path, help="the folder of the user's files and conversations")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds for each token")
    parser.add_argument("--says", type=Path, help="a file with the answer")
    parser.add_argument("--times", type=int, default=1, help="how often the answer says the same")
    given = parser.parse_args()
    chats = given.kind == "chat"
    text = given.says.read_text(encoding="utf-8") if given.says else ANSWER if chats else FIBONACCI * 20
    engine = ScriptedEngine(text * given.times, delay=given.delay, can_chat=chats)
    if given.says:
        engine.context_length = 100_000
    run(ChatApp(beginning(engine, "chatty" if chats else "builtin", home=given.home)))


if __name__ == "__main__":
    main()
