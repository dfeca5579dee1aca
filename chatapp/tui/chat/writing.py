"""Widget: where a model writes: replies are drawn from it, shown as they grow, and ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from textual.containers import Vertical
from textual.message import Message as Event
from textual.timer import Timer

from chatapp.text.printable import printable
from chatapp.tui.chat.completion_page import Notebook
from chatapp.tui.chat.figures import Figures
from chatapp.tui.chat.reply import Ending, Reply, ending
from chatapp.tui.chat.status import Heading, StatusLine
from chatapp.tui.engines import Choice
from chatapp.tui.errors import telling

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, Turn
    from chatapp.generation import Token
    from chatapp.history import Kind
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.chat.transcript import Transcript
    from chatapp.workspace import Opened

SHARE = 0.03
"""Of the time, what the screen may take to show a reply: the rest is the model's."""
TYPING = 0.5
"""Seconds after a key in which its user is taken to be typing."""
LONG = 10.0
"""Seconds after which the end of an answer rings the bell, where nobody is looking."""


class Writing(Vertical):
    """One conversation with what is being written to it; `Pane` adds what its user can do."""

    @dataclass
    class Changed(Event):
        """The conversation has begun or ended a reply: who lists conversations looks again."""

        writing: Writing

    @dataclass
    class Ended(Event):
        """A reply has ended, its thread too."""

        writing: Writing
        reply: Reply

    def __init__(self, choice: Choice, kind: Kind, memory: Callable[[], int]) -> None:
        super().__init__()
        self.choice, self.kind, self.memory = choice, kind, memory
        self.dialogue: Dialogue | None = None
        """Until the history is open, there is none."""
        self.opened: Opened | None = None
        self.heading, self.status = Heading(), StatusLine()
        self.notebook = Notebook()
        self.turn: Turn | None = None
        self.reply: Reply | None = None
        self.last: Reply | None = None
        """The reply before, which may still be computing its last token."""
        self.figures = Figures()
        self.tokens: list[list[Token]] = []
        """Of each of the answers that are being written, or were last."""
        self.columns: Columns | None = None
        """Several answers at once, until one of them is kept."""
        self.finish_reason: str | None = None
        self.held = 0
        """Tokens the conversation takes before the message that is being typed."""
        self.untold: list[tuple[str, Literal["warning", "error"]]] = []
        """What is to be said of this conversation when it is looked at."""
        self.began = 0.0
        self.arranged = False
        """Whether there is a place for what is being written: a quick model may be ready sooner."""
        self.pulse: Timer | None = None
        self.spent = 0.0
        """Processor time of this thread when the reply was last shown."""
        self.cost = 0.0
        """Processor time of this thread from one update to the next."""
        self.shown = self.typed = 0.0
        """When the reply was last shown, and when its user last typed."""
        self.told = 0.0
        """When the figures were last shown."""
        self.stale = False
        """Whether there are newer ones."""

    @cached_property
    def transcript(self) -> Transcript:
        """The messages, where it is a chat."""
        from chatapp.tui.chat.transcript import Transcript

        return Transcript()

    @property
    def page(self) -> Notebook | Transcript:
        """Where the model writes."""
        return self.transcript if self.kind == "chat" else self.notebook

    def text_changed(self) -> None:
        """What is typed may be counted again."""

    async def after_reply(self, end: Ending) -> None:
        """The reply is over, and shown as it ended."""

    async def take_back(self, turn: Turn) -> None:
        """Nothing came: the question returns to where it was typed."""

    # A reply, from its question to its end

    async def start(self, begin: Callable[[], Turn]) -> bool:
        """Begin something and let the model write it; whether that could be, which is told where not."""
        with telling(self):
            await self.draw(begin())
            return True
        return False

    async def draw(self, turn: Turn) -> None:
        """Let the model write what was begun."""
        assert self.dialogue
        self.turn, self.figures, self.finish_reason = turn, Figures(), None
        self.tokens = [[] for _ in turn.replies]
        self.figures.prompt_tokens = self.heading.used
        self.began, self.arranged = time.monotonic(), False
        self.reply = Reply(turn.deltas, lambda reply: self.post_message(self.Ended(self, reply)), after=self.last)
        if self.kind == "chat":
            await self.transcript.begin(turn.replies[0], self.dialogue.branch())
        if len(turn.replies) > 1:
            await self.begin_columns(len(turn.replies))
        self.text_changed()
        self.status.show("● reading", tone="accent", figures=self.figures)
        self.screen.refresh_bindings()
        self.post_message(self.Changed(self))
        self.spent, self.arranged = time.thread_time(), True
        self.pulse = self.set_timer(0.05, self.flush)

    def on_writing_ended(self, message: Ended) -> None:
        if message.reply is self.reply:
            self.call_next(self.flush)
        elif not self.reply:
            self.call_next(self.show_kept)

    async def show_kept(self) -> None:
        """What a stopped reply came to, once its thread has ended: perhaps a token more than was shown."""
        if self.kind == "chat":
            await self.show_branch()

    def reckon(self) -> None:
        """How much of the context the conversation takes, as its last answer was measured."""
        branch = self.dialogue.branch() if self.dialogue else ()
        if self.dialogue and (last := next((one for one in reversed(branch) if one.role == "assistant"), None)):
            from chatapp.evaluation.measurements import Answer

            found = Answer.of(last.usage)  # of several answers it has the tokens of all
            tokens = len(self.dialogue.tokens(last.id)) or found.completion_tokens or 0
            self.held = (found.prompt_tokens or 0) + tokens
            self.held = self.heading.used = min(self.held, self.heading.total or self.held)

    @property
    def context(self) -> int:
        """Tokens the conversation takes of the context; with several answers, the longest of them."""
        several = self.turn is not None and len(self.turn.replies) > 1
        return self.figures.prompt_tokens + (max(map(len, self.tokens)) if several else self.figures.tokens)

    async def show_branch(self) -> None:
        """Show what there is of the conversation now."""
        await self.transcript.show(self.dialogue.branch() if self.dialogue else ())

    @property
    def version(self) -> str:
        """Which of several versions of the model's last words is shown, where the page does not say so itself."""
        return ""

    async def flush(self) -> None:
        """Show what arrived since the last time, and come back soon enough to look live."""
        reply = self.reply
        if self.pulse:
            self.pulse.stop()
        if not reply or not self.arranged:
            return
        over = reply.finished.is_set() or reply.stopping.is_set()
        now = time.monotonic()
        if not over and now < self.typed + TYPING and now < self.shown + self.cost / SHARE:
            self.pulse = self.set_timer(0.1, self.flush)  # a key that waits for an update is felt, an update is not
            return
        deltas = reply.take()
        if deltas:
            self.figures.add(deltas)
            self.finish_reason = deltas[-1].finish_reason
            for index, tokens in enumerate(self.tokens):
                mine = [delta for delta in deltas if delta.index == index]
                more = [token for delta in mine for token in delta.tokens]
                tokens += more
                thought = [delta for delta in mine if delta.channel == "thinking"]
                if thought and not self.columns:
                    self.transcript.think(thought)
                text = printable("".join(delta.text for delta in mine if delta.channel == "text"))
                if self.columns:
                    self.columns.grow(index, text, more)
                    if mine and (reason := mine[-1].finish_reason):
                        self.columns.finish(index, reason)
                elif text:
                    await self.page.grow(text)
            self.stale = True
        if over and self.reply is reply:
            await self.end(reply)
        elif self.reply is reply:
            if self.stale and time.monotonic() > self.told + 0.2:  # figures that change faster cannot be read
                writing = "● thinking" if deltas and deltas[-1].channel == "thinking" else "● writing"
                self.tell("● summing up" if self.turn and self.turn.summarising else writing, "accent")
            self.cost, self.spent, self.shown = time.thread_time() - self.spent, time.thread_time(), now
            self.pulse = self.set_timer(min(0.4, max(0.05, self.cost / SHARE)), self.flush)

    def tell_user(self) -> None:
        """Say in passing what there is to say of this conversation, once it is looked at."""
        if self.display and self.app.screen is self.screen:
            for text, severity in self.untold:
                self.notify(text, severity=severity, timeout=10, markup=False)
            self.untold.clear()

    def tell(self, state: str, tone: str, reason: str = "") -> None:
        """Show the figures, or why there are none."""
        self.stale, self.told = False, time.monotonic()
        self.status.place = self.opened.place if self.opened else ""  # another one, where a backend failed
        used, total = self.context, self.heading.total
        self.heading.used = min(used, total or used)  # the very last token is never read
        self.heading.left_out = self.turn.left_out if self.turn else 0
        self.status.show(state, tone=tone, reason=reason, figures=self.figures)

    async def end(self, reply: Reply) -> None:
        """The reply is over: keep what was written and say how it ended."""
        assert self.dialogue and self.turn
        figures = self.figures
        full = figures.usage is not None and self.context >= self.heading.total
        when_full = self.dialogue.setup.when_full
        if self.kind == "completion" and when_full == "summarise":
            when_full = "slide"  # of a text there is no summary
        end = ending(self.finish_reason, error=reply.error, full=full, when_full=when_full)
        if end.message:
            self.untold.append((end.message, "error" if reply.error else "warning"))
            self.tell_user()
        self.reply, self.last = None, reply
        if self.columns:
            self.columns.finish_all()
            if not figures.tokens:
                await self.end_columns()
        if self.kind == "completion":
            self.notebook.finish("   ".join(filter(None, (self.version, end.mark))) if figures.tokens else "")
        elif figures.tokens:
            await self.transcript.finish(self.dialogue.branch(), end.mark)
        else:
            mine = (
                {one.id for one in (self.turn.question, *self.turn.replies) if one} if not self.turn.resumed else set()
            )
            await self.transcript.withdraw([one for one in self.dialogue.branch() if one.id not in mine])
            await self.take_back(self.turn)
        if figures.tokens:
            self.held = min(self.context, self.heading.total or self.context)
        self.status.memory = figures.usage.peak_memory if figures.usage else self.memory()
        self.tell(end.state, end.tone, end.message if reply.error else "")
        self.screen.refresh_bindings()
        self.ring()
        self.post_message(self.Changed(self))
        await self.after_reply(end)

    # Several answers at once

    async def begin_columns(self, n: int) -> None:
        """Show the answers side by side, in place of the page."""
        from chatapp.tui.answers.columns import Columns

        self.columns = Columns(n)
        self.page.display = False
        await self.mount(self.columns, after=self.heading)
        self.columns.focus()

    async def end_columns(self) -> None:
        """Show the page again."""
        if self.columns:
            await self.columns.remove()
            self.columns = None
            self.page.display = True

    async def keep(self, index: int) -> None:
        """Keep one of the answers; the others are its other versions."""
        assert self.dialogue and self.turn
        await self.end_columns()
        self.tokens = [self.tokens[index]]
        self.held = self.heading.used = min(self.context, self.heading.total or self.context)
        self.dialogue.select(self.turn.replies[index].id)
        await self.show_branch()

    def ring(self) -> None:
        """Tell who is elsewhere that a long answer has ended."""
        if time.monotonic() - self.began > LONG and not (self.app.app_focus and self.display):
            self.app.bell()
            self.notify(f"{self.heading.model} has answered.", markup=False)

    def stop(self) -> None:
        """End the reply: the model stops after the token it is computing."""
        if self.reply:
            self.reply.stop()
            self.call_next(self.flush)

    async def halt(self) -> None:
        """End the reply before anything else happens."""
        if self.reply:
            self.reply.stop()
            await self.flush()
