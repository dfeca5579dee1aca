"""Widget: the messages of a chat, the last one growing."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.tui.chat.message import Answer, Question, Said
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.widgets.textual_fixes import EndsInTime

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from chatapp.conversation import Dialogue, Turn
    from chatapp.generation import Delta, Engine, Token
    from chatapp.generation import Message as Prompted
    from chatapp.history import Message, Role

RECENT = 5
"""Answers kept as Markdown widgets."""
WINDOW, MORE = 20, 10
"""Messages shown, and how many are added when scrolling to the top: every widget costs time."""
FIRST = 6
"""Messages shown in the first frame; the rest of the window follows."""


class ChatPage(EndsInTime, VerticalScroll):
    """One branch of a conversation; it follows the end while scrolled there."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self.dialogue: Dialogue | None = None
        """The conversation; None until the history is open."""
        self.branch: Sequence[Message] = ()
        """All messages, including those above the ones shown."""
        self.answer: Answer | None = None
        """The answer being written."""
        self.changing = Lock()
        """Held while messages are replaced: two changes at once would mount the same messages twice."""
        self.extending = False
        """Whether messages are being added above."""
        self.count: Callable[[str], int] | None = None
        """Counts the tokens of folded parts; None until a model is open."""

    def compose(self) -> ComposeResult:
        self.earlier = Static("", markup=False, classes="earlier")
        self.earlier.display = False
        self.messages = Vertical(self.earlier, id="messages")
        yield self.messages

    def recount(self, count: Callable[[str], int] | None) -> None:
        """Show the token counts of folded parts of questions."""
        self.count = count
        for view in self.said:
            if isinstance(view, Question):
                view.recount(count)

    @property
    def said(self) -> list[Said]:
        """The message widgets shown."""
        messages = self.messages.children if self.is_mounted else ()
        return [child for child in messages if isinstance(child, Said)]

    # The conversation

    @property
    def empty(self) -> bool:
        """Whether the conversation has no messages."""
        return not (self.dialogue and self.dialogue.branch())

    async def show(self) -> None:
        """Show the current branch."""
        async with self.changing:
            await self.show_branch(self.dialogue.branch() if self.dialogue else ())

    open = show

    def last(self, role: Role) -> Message | None:
        """The last message of this role."""
        return self.dialogue.last(role) if self.dialogue else None

    def keep(self, draft: Callable[[], str]) -> None:
        """Save the draft."""
        if self.dialogue:
            self.dialogue.keep_draft(draft())

    keep_typed = keep

    def prompt(self, engine: Engine, draft: Callable[[], str]) -> Sequence[Prompted] | str:
        """The messages up to the last question, or up to the draft, as the model would get them."""
        from chatapp.conversation.context_window import prompt
        from chatapp.history import Message

        if not self.dialogue:
            return ()
        said = [one for one in self.dialogue.branch() if one.text]
        if text := draft().strip():
            said.append(Message(0, 0, None, "user", text, 0.0))
        while said and said[-1].role != "user":
            said.pop()
        return prompt(engine, said, system=self.dialogue.setup.system) if said else ()

    @property
    def tokens_measured(self) -> int:
        """The tokens of the conversation according to its last answer; 0 if unknown."""
        if not self.dialogue or not (last := self.last("assistant")):
            return 0
        from chatapp.evaluation.measurements import Answer as Measured

        found = Measured.of(last.usage)  # with several answers, it counts the tokens of all of them
        return (found.prompt_tokens or 0) + (len(self.dialogue.tokens(last.id)) or found.completion_tokens or 0)

    # Turns: each method returns a function that begins one, given the engine

    def again(self, said: Message | None = None, n: int = 1) -> Callable[[Engine], Turn] | None:
        """Another answer beside this one or the last, or an answer to a final question; None if there is nothing."""
        if self.dialogue and (said := said or self.dialogue.unanswered or self.last("assistant")):
            return partial(self.dialogue.again, message=said.id, n=n)
        return None

    def resume(self) -> Callable[[Engine], Turn] | None:
        """Continue the last answer where it was cut off, or answer a final question."""
        if self.dialogue and self.dialogue.unanswered:
            return self.again()
        last = self.last("assistant")
        return partial(self.dialogue.resume, message=last.id) if self.dialogue and last else None

    def go_on(self, said: Message, tokens: Sequence[Token]) -> Callable[[Engine], Turn]:
        """Another version of an answer that begins with these tokens."""
        assert self.dialogue
        return partial(self.dialogue.go_on, message=said.id, tokens=tokens)

    def release(self) -> None:
        """The turn could not begin; nothing has changed here."""

    def reached(self) -> None:
        """None: chat messages are whole."""

    # The reply

    async def await_reply(self, turn: Turn) -> None:
        """Show the question and an empty answer."""
        from chatapp.text.markdown import Tame

        assert self.dialogue
        reply = turn.replies[0]
        async with self.changing:
            await self.show_branch([message for message in self.dialogue.branch() if message.id != reply.id])
            self.answer = Answer(reply, tame=Tame())
            with self.app.batch_update():
                await self.messages.mount(self.answer)
        if not self.answer.is_mounted:  # the screen is closing
            self.answer = None
            return
        if isinstance(self.screen.focused, Said):  # keep the focus on messages, at the newest one
            self.answer.focus(scroll_visible=False)
        self.anchor()

    async def grow(self, deltas: Sequence[Delta]) -> None:
        """Add deltas to the answer and its thinking."""
        if not self.answer:
            return
        if thought := [delta for delta in deltas if delta.channel == "thinking"]:
            self.answer.think(thought)
        if text := printable("".join(delta.text for delta in deltas if delta.channel == "text")):
            await self.answer.grow(text)

    async def finish(self, turn: Turn, mark: str, *, written: bool) -> None:
        """The answer has ended; if nothing was written, the question is taken back."""
        assert self.dialogue
        branch = self.dialogue.branch()
        if self.answer:
            said = self.answer.said
            now = next((one for one in branch if one.id == said.id), said)
            await self.answer.finish(now if written else said, mark if written else "")
            if not written:
                await self.answer.remove()
        added = () if written or turn.resumed else (turn.question, *turn.replies)
        gone = {one.id for one in added if one}
        async with self.changing:
            self.answer = None
            await self.show_branch([one for one in branch if one.id not in gone])

    async def show_end(self) -> None:
        """Show the final text of a stopped answer, which may have got one more token."""
        async with self.changing:
            if self.dialogue and not self.answer:  # the next answer may have begun already
                top, follows = self.scroll_y, self.is_vertical_scroll_end
                await self.show_branch(self.dialogue.branch())
                if not follows:
                    self.scroll_to(y=top, animate=False, immediate=True)

    tip = ""
    """What can be done next."""

    async def walk(self, step: int, said: Message) -> None:
        """Show an older or newer version of a message."""
        place = said.versions.index(said.id) + step
        if self.answer:
            self.notify(BUSY)
        elif self.dialogue and 0 <= place < len(said.versions):
            self.dialogue.select(said.versions[place])
            top = self.scroll_y
            await self.show()
            self.scroll_to(y=top, animate=False, immediate=True)  # keep the versions at the same place
            self.focus_on(said.versions[place])

    # Messages as widgets

    async def show_branch(self, branch: Sequence[Message]) -> None:
        """Show a branch, keeping the widgets of the messages it shares with the one shown before."""
        before = {view.said.id: view for view in self.said}
        self.branch = branch
        first = max(0, len(branch) - (max(WINDOW, len(before)) if before else FIRST))
        kept: list[Said] = []
        for message in branch[first:]:
            view = before.get(message.id)
            if view is None or view.said.text != message.text:
                break
            kept.append(view)
        new = self.views(branch[first + len(kept) :], recent=RECENT if before else 0)  # 0 opens a conversation faster
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

    def views(self, messages: Sequence[Message], recent: int = RECENT) -> list[Said]:
        """The widgets of messages; the most recent answers as Markdown."""
        answers = [message.id for message in messages if message.role == "assistant"]
        live = set(answers[-recent:]) if recent else set()
        return [self.view(message, settled=message.id not in live) for message in messages]

    def view(self, message: Message, *, settled: bool) -> Said:
        """The widget of a message."""
        if message.role == "assistant":
            return Answer(message, settled=settled)
        if message.role == "tool":
            from chatapp.tui.chat.tool_result import ToolResult

            return ToolResult(message)
        return Question(message, self.count)

    # Earlier messages

    def count_earlier(self, count: int) -> None:
        """Show how many messages are above."""
        self.earlier.display = bool(count)
        self.earlier.update(f"{count:,} earlier {'message' if count == 1 else 'messages'}: scroll up")

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if self.answer and new < old:
            self.call_after_refresh(self.answer.look_up)
        if new < 2 and new < old:
            self.call_next(self.load_earlier)

    async def load_earlier(self, more: int = MORE) -> None:
        """Add a few more messages above, keeping the scroll position."""
        first = len(self.branch) - len(self.said)
        if self.extending or first <= 0:
            return
        self.extending = True
        height = self.virtual_size.height
        start = max(0, first - more)
        views = self.views(self.branch[start:first], recent=0)
        with self.app.batch_update():
            await self.messages.mount(*views, after=self.earlier)
            self.count_earlier(start)
        self.call_after_refresh(self.stay, height)

    def stay(self, height: int) -> None:
        """Scroll down by the height of what was added above."""
        self.scroll_to(y=self.scroll_y + self.virtual_size.height - height, animate=False, force=True)
        self.extending = False

    async def reach(self, message: int) -> None:
        """Show the branch with a message, and scroll to it."""
        if self.dialogue and all(one.id != message for one in self.dialogue.branch()):
            self.dialogue.select(message)
            await self.show()
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
        """Focus a message and scroll to it."""
        for view in self.said:
            if view.said.id == message:
                view.focus(scroll_visible=False)
                self.call_after_refresh(self.scroll_to_widget, view, animate=False, top=True, force=True)

    async def settle(self) -> None:
        """Turn older answers into one widget each; this changes their height, so not while scrolled up."""
        if not self.is_vertical_scroll_end:
            return
        answers = [view for view in self.said if isinstance(view, Answer)]
        for answer in answers[:-RECENT]:
            await answer.settle()
