"""Widget: the messages of one conversation, the last one growing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from textual.widgets import Markdown
    from textual.widgets.markdown import MarkdownStream

RECENT = 6
"""Answers kept as Markdown widgets; each costs a dozen widgets, so older ones become one."""


class Conversation(VerticalScroll):
    """Messages by role; it follows the end when it is already there."""

    def __init__(self) -> None:
        super().__init__()
        self.source = ""
        """The answer so far."""
        self.answer: Markdown | None = None
        self.stream: MarkdownStream | None = None
        self.parser: MarkdownIt | None = None

    def compose(self) -> ComposeResult:
        yield Vertical(id="messages")

    @property
    def messages(self) -> Vertical:
        return self.query_one("#messages", Vertical)

    async def begin(self, text: str) -> None:
        """Show a message of the user's and make room for the answer."""
        from textual.widgets import Markdown  # slow to import, so not before it is needed

        self.source = ""
        self.answer = Markdown(parser_factory=self.shared_parser, open_links=False, classes="answer")
        self.stream = Markdown.get_stream(self.answer)
        question = Static(text, markup=False, classes="question")
        with self.app.batch_update():
            await self.messages.mount(Vertical(question, self.answer, classes="exchange"))
        self.anchor()
        await self.settle()

    def shared_parser(self) -> MarkdownIt:
        """One parser for all answers: appending would make a new one each time."""
        if self.parser is None:
            from markdown_it import MarkdownIt

            self.parser = MarkdownIt("gfm-like")
        return self.parser

    async def grow(self, text: str) -> None:
        """Add to the answer."""
        self.source += text
        if self.stream:
            await self.stream.write(text)

    async def finish(self, mark: str = "") -> None:
        """The answer has ended; `mark` says how, where that matters."""
        if self.stream and self.answer:
            await self.stream.stop()
            await self.answer.update(self.source)  # references are resolved only when the whole is known
        self.stream = None
        if mark:
            await self.messages.children[-1].mount(Static(mark, markup=False, classes="mark"))

    async def withdraw(self) -> None:
        """Take the last question and its answer back."""
        if self.stream:
            await self.stream.stop()
        self.stream = self.answer = None
        await self.messages.children[-1].remove()

    async def clear(self) -> None:
        """Start over."""
        self.stream = self.answer = None
        await self.messages.remove_children()

    async def settle(self) -> None:
        """Turn answers that are long past into one widget each."""
        from rich.markdown import Markdown as Settled
        from textual.widgets import Markdown

        for answer in list(self.messages.query(Markdown))[:-RECENT]:
            settled: Widget = Static(Settled(answer.source), classes="answer settled")
            assert isinstance(exchange := answer.parent, Widget)
            await exchange.mount(settled, after=answer)
            await answer.remove()
