"""A page with a prompt, its keyboard, and what the prompt posts."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

from chatapp.tui.prompt import Prompt
from support.themed_app import ThemedApp
from support.typist import Typist

COMMANDS = [
    ("clear", "start a new conversation"),
    ("set parameter NAME VALUE", "change an option"),
    ("set system TEXT", "change the system prompt"),
    ("show [info]", "tell about the model"),
]


class Page(ThemedApp):
    """A page with a prompt, as a conversation has one."""

    CSS_PATH = None
    CSS = """
    #page { height: 1fr; }
    Prompt { margin: 1 2; padding: 0 2; border-left: thick $accent; background: $surface; color: $text; }
    Prompt:focus { border: none; border-left: thick $accent; }
    Prompt .text-area--cursor { color: $background; background: $accent; }
    Prompt .text-area--placeholder { color: $muted; }
    """

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self.prompt = prompt
        self.got: list[Message] = []
        self.counted: list[Prompt.Counted] = []

    def compose(self) -> ComposeResult:
        yield Static("A conversation.\n" * 30, id="page")
        yield self.prompt

    def on_mount(self) -> None:
        self.prompt.focus()

    @on(Prompt.Submitted)
    @on(Prompt.CommandEntered)
    def note(self, message: Message) -> None:
        self.got.append(message)

    @on(Prompt.Counted)
    def count(self, message: Prompt.Counted) -> None:
        self.counted.append(message)


class Driver(Typist):
    """A running page, its keyboard, and patience."""

    def __init__(self, app: Page, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.prompt = app, app.prompt

    async def paste(self, text: str) -> None:
        self.prompt.post_message(events.Paste(text))
        await self.pilot.pause()

    @property
    def texts(self) -> list[str]:
        """What was submitted."""
        return [message.text for message in self.app.got if isinstance(message, Prompt.Submitted)]

    @property
    def commands(self) -> list[str]:
        return [message.line for message in self.app.got if isinstance(message, Prompt.CommandEntered)]

    @property
    def complaints(self) -> list[str]:
        return [told.message for told in self.app._notifications if told.severity == "warning"]

    @property
    def offered(self) -> list[str]:
        return [choice.name for choice in self.prompt.popup.choices]


@asynccontextmanager
async def page(prompt: Prompt | None = None, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Driver]:
    app = Page(prompt or Prompt(commands=COMMANDS))
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)


def words(text: str) -> int:
    return len(text.split())


def earlier() -> Sequence[str]:
    return ["oldest", "two\nlines", "explain this"]


if __name__ == "__main__":
    Page(Prompt(commands=COMMANDS, past=earlier, count_tokens=words, root=Path(*sys.argv[1:]))).run()
