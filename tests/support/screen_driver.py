"""Drives the screen in tests: an app with a scripted engine, its keyboard, and patience."""

import argparse
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from chatapp.history import History
from chatapp.models import suggestion
from chatapp.tui.app import ChatApp, run
from chatapp.tui.chat.completion_page import EXAMPLE as EXAMPLE
from chatapp.tui.chat.pane import Pane
from chatapp.tui.engines import Choice, Open
from chatapp.tui.start import Start
from model_store import Store
from support.scripted_engine import ANSWER, FIBONACCI, ScriptedEngine, opener
from support.typist import Typist


class Driver(Typist):
    """A running app: its screen, its keyboard, and patience."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.screen = app, app.chat_screen

    @property
    def pane(self) -> Pane:
        return self.screen.pane

    async def answered(self, times: int = 1) -> None:
        """Until so many replies have ended since the app began."""
        await self.until(lambda: self.pane.figures.tokens and not self.pane.reply, "the reply to end")

    async def wrote(self, tokens: int) -> None:
        await self.until(lambda: self.pane.figures.tokens == tokens and not self.pane.stale, f"{tokens} tokens")

    @property
    def text(self) -> str:
        return self.pane.notebook.text

    @property
    def state(self) -> str:
        return self.pane.status.state

    @property
    def said(self) -> list[tuple[str, str]]:
        """The branch that is shown: who said what."""
        return [(one.role, one.text) for one in self.pane.dialogue.branch()] if self.pane.dialogue else []

    def written_by_model(self) -> str:
        """What the notebook shows as the model's."""
        notebook = self.pane.notebook
        written = zip(notebook.text, "".join(notebook.authors), strict=True)
        return "".join(character for character, author in written if author == "m")


def beginning(
    open_model: Open | ScriptedEngine,
    model: str = "builtin",
    *,
    history: Path | None = None,
    home: Path | None = None,
    theme: str = "midnight",
    resume: bool = True,
) -> Start:
    """What an app begins with: one engine for whatever model is asked for, and perhaps a history."""
    opens = opener(open_model) if isinstance(open_model, ScriptedEngine) else open_model
    if home:
        home.mkdir(parents=True, exist_ok=True)
        history = home / "history.db"
    home = home or Path(tempfile.mkdtemp(prefix="chatapp-home-"))
    suggestion.remember_answer(home / "offer.json")  # nothing is offered, whatever this machine could run
    return Start(
        Choice(model),
        lambda choice: opens,
        lambda: History(history) if history else None,
        lambda: Store(home / "models"),
        home,
        lambda theme: None,
        lambda: 118_000_000,
        theme=theme,
        resume=resume,
    )


@asynccontextmanager
async def started(start: Start, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Driver]:
    """The app as it begins."""
    app = ChatApp(start)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)
        if app.chat_screen.history:
            app.chat_screen.rest(5)
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
    start = beginning(engine, "chatty" if engine.can_chat else "builtin", history=history, theme=theme, resume=resume)
    async with started(start, size=size) as driver:
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
    start = beginning(engine, "chatty" if chats else "builtin", home=given.home)
    run(start)


if __name__ == "__main__":
    main()
