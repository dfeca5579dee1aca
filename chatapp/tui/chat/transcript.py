"""Widget: the messages of one conversation, the last one growing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from chatapp.tui.chat.message import Answer, Question, Said

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from textual.app import ComposeResult

    from chatapp.generation import Delta
    from chatapp.history import Message

RECENT = 5
"""Answers kept as Markdown widgets."""
WINDOW, MORE = 20, 10
"""Messages shown, and how many more come each time one scrolls to the top: every widget costs time."""
FIRST = 6
"""Messages shown at once where there were none: the others of the window come when these are painted."""


class Transcript(VerticalScroll):
    """One branch of a conversation; it follows the end when it is already there."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self.branch: Sequence[Message] = ()
        """All messages, also those above the ones that are shown."""
        self.answer: Answer | None = None
        """The one that is being written."""
        self.parser: MarkdownIt | None = None
        self.loading = False
        self.count: Callable[[str], int] | None = None
        """Counts the tokens of what is folded, once a model is open."""

    def compose(self) -> ComposeResult:
        self.earlier = Static("", markup=False, classes="earlier")
        self.earlier.display = False
        self.messages = Vertical(self.earlier, id="messages")
        yield self.messages

    def weigh(self, count: Callable[[str], int]) -> None:
        """Say how many tokens the folded parts of questions take, now that something can count them."""
        self.count = count
        for view in self.said:
            if isinstance(view, Question):
                view.weigh(count)

    def shared_parser(self) -> MarkdownIt:
        """One parser for all answers: appending would make a new one each time."""
        if self.parser is None:
            from chatapp.text import markdown

            self.parser = markdown.parser()
        return self.parser

    @property
    def said(self) -> list[Said]:
        """The messages that are shown."""
        messages = self.messages.children if self.is_mounted else ()
        return [child for child in messages if isinstance(child, Said)]

    async def show(self, branch: Sequence[Message]) -> None:
        """Show a branch: what it shares with the one before stays as it is."""
        before = {view.said.id: view for view in self.said}
        self.branch = branch
        first = max(0, len(branch) - (max(WINDOW, len(before)) if before else FIRST))
        kept: list[Said] = []
        for message in branch[first:]:
            view = before.get(message.id)
            if view is None or view.said.text != message.text:
                break
            kept.append(view)
        new = self.views(branch[first + len(kept) :], recent=RECENT if before else 0)  # what is opened comes at once
        with self.app.batch_update():
            await self.messages.remove_children([view for view in before.values() if view not in kept])
            for view, message in zip(kept, branch[first:], strict=False):
                view.update(message, newest=message is branch[-1])
            if new:
                new[-1].newest = True
                new[-1].show_foot()
            await self.messages.mount(*new)
            self.count_earlier(first)
            await self.settle()
        if new:
            self.anchor()
        if first and not before:
            self.call_after_refresh(self.load_earlier, WINDOW - FIRST)

    async def begin(self, reply: Message, branch: Sequence[Message]) -> None:
        """Show a question and make room for its answer."""
        from chatapp.text.markdown import Tame

        await self.show([message for message in branch if message.id != reply.id])
        self.answer = Answer(reply, self.shared_parser, tame=Tame())
        with self.app.batch_update():
            await self.messages.mount(self.answer)
        if isinstance(self.screen.focused, Said):  # the keys stay with the messages, at the newest one
            self.answer.focus(scroll_visible=False)
        self.anchor()

    def think(self, deltas: Sequence[Delta]) -> None:
        """The model thinks before it answers."""
        if self.answer:
            self.answer.think(deltas)

    async def grow(self, text: str) -> None:
        """Add to the answer that is being written."""
        if self.answer:
            await self.answer.grow(text)

    async def finish(self, branch: Sequence[Message], mark: str = "") -> None:
        """The answer has ended; this is the conversation now."""
        if self.answer:
            said = self.answer.said
            await self.answer.finish(next((one for one in branch if one.id == said.id), said), mark)
        self.answer = None
        await self.show(branch)

    async def withdraw(self, branch: Sequence[Message]) -> None:
        """Nothing came: show what there was before."""
        if self.answer:
            await self.answer.finish(self.answer.said)
            await self.answer.remove()
        self.answer = None
        await self.show(branch)

    def views(self, messages: Sequence[Message], recent: int = RECENT) -> list[Said]:
        """The widgets of messages; of the answers, the most recent ones as Markdown."""
        answers = [message.id for message in messages if message.role == "assistant"]
        live = set(answers[-recent:]) if recent else set()
        return [
            Answer(message, self.shared_parser, settled=message.id not in live)
            if message.role == "assistant"
            else Question(message, self.count)
            for message in messages
        ]

    # What is above

    def count_earlier(self, count: int) -> None:
        """Tell how many messages are above."""
        self.earlier.display = bool(count)
        self.earlier.update(f"{count:,} earlier {'message' if count == 1 else 'messages'}: scroll up")

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if new < 2 and new < old:
            self.call_next(self.load_earlier)

    async def load_earlier(self, more: int = MORE) -> None:
        """Show a few more messages above, and stay at the message that was on top."""
        first = len(self.branch) - len(self.said)
        if self.loading or first <= 0:
            return
        self.loading = True
        height = self.virtual_size.height
        start = max(0, first - more)
        views = self.views(self.branch[start:first], recent=0)
        with self.app.batch_update():
            await self.messages.mount(*views, after=self.earlier)
            self.count_earlier(start)
        self.call_after_refresh(self.stay, height)

    def stay(self, height: int) -> None:
        """Scroll as far as what came above is high."""
        self.scroll_to(y=self.scroll_y + self.virtual_size.height - height, animate=False, force=True)
        self.loading = False

    async def reach(self, message: int) -> None:
        """Scroll to a message, wherever it is."""
        place = next((i for i, one in enumerate(self.branch) if one.id == message), None)
        if place is None:
            return
        while len(self.branch) - len(self.said) > place:
            first = len(self.branch) - len(self.said)
            start = max(place, first - 50)
            await self.messages.mount(*self.views(self.branch[start:first], recent=0), after=self.earlier)
            self.count_earlier(start)
        self.focus_on(message)

    def focus_on(self, message: int) -> None:
        """Let the keys act on a message, and show it."""
        for view in self.said:
            if view.said.id == message:
                view.focus(scroll_visible=False)
                self.call_after_refresh(self.scroll_to_widget, view, animate=False, top=True, force=True)

    async def settle(self) -> None:
        """Turn answers that are long past into one widget each."""
        answers = [view for view in self.said if isinstance(view, Answer)]
        for answer in answers[:-RECENT]:
            await answer.settle()
