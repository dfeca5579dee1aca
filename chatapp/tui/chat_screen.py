"""A conversation in progress: what is typed goes to the model, what it writes comes back in batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import TextArea

from chatapp.terminal import printable
from chatapp.tui.conversation import Conversation
from chatapp.tui.figures import Figures
from chatapp.tui.keys import Keys
from chatapp.tui.notebook import Notebook
from chatapp.tui.opened import Choices, Draw, Opened
from chatapp.tui.opening import Open, Opening
from chatapp.tui.prompt import Prompt
from chatapp.tui.reply import Reply, ended, ending
from chatapp.tui.status import Heading, StatusLine
from chatapp.tui.welcome import Welcome
from chatapp.units import count, milliseconds

if TYPE_CHECKING:
    from chatapp.generation import Options

Mode = Literal["completion", "chat"]

BUSY = "The model is writing: esc stops it."
SHARE = 0.03
"""Of the time, what the screen may take to show a reply: the rest is the model's."""


class ChatScreen(Screen[None]):
    """One model, and either a notebook it continues or a conversation it answers in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", key_display="esc"),
        Binding("ctrl+c", "interrupt", "Stop or copy", show=False),
        Binding("ctrl+r", "again", "Again", key_display="^R"),
        Binding("ctrl+n", "new", "New", key_display="^N"),
    ]

    @dataclass
    class Counted(Message):
        """The text that is being typed takes so many tokens."""

        tokens: int

    class Ended(Message):
        """A reply has ended."""

    def __init__(
        self, open_engine: Open, *, model: str, mode: Mode, options: Options | None, memory: Callable[[], int]
    ) -> None:
        super().__init__()
        self.open_engine, self.model, self.mode = open_engine, model, mode
        self.options, self.memory = options, memory
        """Tells the memory taken so far."""
        self.notebook, self.conversation, self.prompt = Notebook(), Conversation(), Prompt()
        self.opening: Opening | None = None
        self.opened: Opened | None = None
        self.failure: str | None = None
        self.wanted = False
        """Whether the model should write as soon as it is open."""
        self.reply: Reply | None = None
        self.last: Reply | None = None
        """The reply before, which may still be computing its last token."""
        self.figures = Figures()
        self.finish_reason: str | None = None
        self.turns: list[tuple[Literal["user", "assistant"], str]] = []
        self.held = 0
        """Tokens the conversation takes before the message that is being typed."""
        self.attempts = 0
        self.pulse: Timer | None = None
        self.spent = 0.0
        """Processor time of this thread when the reply was last shown."""
        self.told = 0.0
        """When the figures were last shown."""
        self.stale = False
        """Whether there are newer ones."""

    def compose(self) -> ComposeResult:
        self.heading, self.welcome, self.status = Heading(), Welcome(), StatusLine()
        yield self.heading
        yield self.welcome
        yield self.status
        yield Keys()

    async def on_mount(self) -> None:
        self.heading.model = self.model
        self.status.show("○ loading", hint="type ahead: the model opens meanwhile")
        await self.show_mode()
        self.call_after_refresh(self.load)

    # Opening the model

    def load(self) -> None:
        self.opening = Opening(self.open_engine, self.post_message)
        self.opening.start()

    def rest(self, seconds: float) -> bool:
        """Stop what runs in threads; whether it ended within this time."""
        threads: list[Thread] = [self.opening] if self.opening else []
        for reply in filter(None, (self.reply, self.last)):
            reply.stop()
            threads.append(reply.thread)
        return ended(threads, seconds)

    @on(Opening.Progressed)
    def show_progress(self, message: Opening.Progressed) -> None:
        self.status.show("○ loading", hint=f"{message.step} {message.share:.0%}")

    @on(Opening.Failed)
    def do_without(self, message: Opening.Failed) -> None:
        self.failure, self.wanted = message.error, False
        self.status.show("✗ no model", tone="error", hint="what you typed stays here")
        self.text_changed()
        self.notify(message.error, severity="error", timeout=10, markup=False)

    @on(Opening.Ready)
    async def take_up(self, message: Opening.Ready) -> None:
        self.opened = message.opened
        self.status.place, self.status.memory = self.opened.place, self.memory()
        self.heading.model, self.heading.about = self.opened.name, f"{count(self.opened.parameters)} parameters"
        self.heading.total = self.opened.engine.context_length
        self.notebook.gaps = self.opened.engine.can_infill
        self.status.show("● ready", tone="success", hint=f"opened in {milliseconds(self.opened.seconds)}")
        await self.action_mode("chat" if self.opened.engine.can_chat else "completion")
        self.text_changed()
        if self.wanted:
            self.wanted = False
            await self.ask()

    # Modes

    @property
    def page(self) -> Notebook | Conversation:
        """Where the model writes."""
        return self.conversation if self.mode == "chat" else self.notebook

    @property
    def box(self) -> TextArea:
        """Where the user writes."""
        return self.prompt if self.mode == "chat" else self.notebook

    async def action_mode(self, mode: Mode) -> None:
        """Change between completion and chat; an unsent text moves along."""
        if mode == "chat" and self.opened and not self.opened.engine.can_chat:
            self.notify(f"{self.opened.name} has no chat template: it continues text.", severity="warning")
        elif self.reply:
            self.notify(BUSY)
        elif mode != self.mode:
            source, self.mode = self.box, mode
            if source.text and not self.box.text and not self.turns:
                self.box.load_text(source.text)
                self.box.move_cursor(self.box.document.end)
                source.load_text("")
            await self.show_mode()

    async def show_mode(self) -> None:
        """Show the notebook, or the conversation and its prompt; what was never shown is not mounted."""
        parts = (self.conversation, self.prompt) if self.mode == "chat" else (self.notebook,)
        for part in parts:
            if not part.is_attached:
                await self.mount(part, before=self.welcome)
        self.set_class(self.mode == "chat", "-chat")
        self.heading.mode = self.mode
        self.box.focus()
        self.text_changed()

    @on(TextArea.Changed)
    def text_changed(self) -> None:
        self.welcome.display = not (self.failure or (self.turns if self.mode == "chat" else self.notebook.text))
        if self.welcome.display:
            self.welcome.show(self.mode, self.heading.model, self.heading.about, gaps=self.notebook.gaps)
        if not self.reply:
            self.count_tokens()

    @work(thread=True, exclusive=True, group="count")
    def count_tokens(self) -> None:
        if self.opened:
            self.post_message(self.Counted(self.opened.engine.count_tokens(self.box.text)))

    def on_chat_screen_counted(self, message: Counted) -> None:
        if not self.reply:
            self.heading.used = message.tokens + (self.held if self.mode == "chat" else 0)

    # A reply, from its question to its end

    @on(Notebook.Asked)
    @on(Prompt.Submitted)
    async def ask(self) -> None:
        """Let the model write, as soon as it is open and free."""
        text = self.box.text
        if not text.strip():
            self.notify("Write something first, or take the example with tab.")
        elif self.failure:
            self.notify(self.failure, severity="error", timeout=10, markup=False)
        elif self.reply:
            self.notify(BUSY)
        elif not self.opened:
            self.wanted = True
            self.status.show("○ loading", hint="the model will write as soon as it is open")
        elif self.mode == "chat":
            self.turns.append(("user", text))
            self.prompt.load_text("")
            await self.conversation.begin(text)
            self.start(self.opened.answer(list(self.turns), self.choices, held=self.held))
        elif self.notebook.gap:
            self.start(self.opened.infill(*self.notebook.begin(), self.choices))
        else:
            self.start(self.opened.continuation(self.notebook.begin()[0], self.choices))

    @property
    def choices(self) -> Choices:
        """The options for one more attempt."""
        return Choices(self.options, self.attempts)

    def start(self, draw: Draw) -> None:
        self.figures, self.finish_reason = Figures(), None
        self.reply = Reply(draw, lambda: self.post_message(self.Ended()), after=self.last)
        self.text_changed()
        self.status.show("● reading", tone="accent", figures=self.figures)
        self.refresh_bindings()
        self.spent = time.thread_time()
        self.pulse = self.set_timer(0.05, self.flush)

    @on(Ended)
    async def flush(self) -> None:
        """Show what arrived since the last time, and come back soon enough to look live."""
        reply = self.reply
        if self.pulse:
            self.pulse.stop()
        if not reply:
            return
        over = reply.finished.is_set() or reply.stopping.is_set()
        deltas = reply.take()
        if deltas:
            self.figures.add(deltas)
            self.finish_reason = deltas[-1].finish_reason
            if text := printable("".join(delta.text for delta in deltas)):
                await self.page.grow(text)
            self.stale = True
        if not self.figures.usage:
            self.figures.prompt_tokens = reply.prompt_tokens
        if over:
            await self.end(reply)
        else:
            if self.stale and time.monotonic() > self.told + 0.2:  # figures that change faster cannot be read
                self.tell("● writing", "accent")
            spent, self.spent = time.thread_time() - self.spent, time.thread_time()
            self.pulse = self.set_timer(min(0.4, max(0.05, spent / SHARE)), self.flush)

    def tell(self, state: str, tone: str) -> None:
        """Show the figures."""
        self.stale, self.told = False, time.monotonic()
        self.status.place = self.opened.place if self.opened else ""  # another one, where a backend failed
        used, total = self.figures.context, self.heading.total
        self.heading.used = min(used, total) if self.figures.usage else used  # the very last token is never read
        self.status.show(state, tone=tone, figures=self.figures)

    async def end(self, reply: Reply) -> None:
        """The reply is over: keep what was written and say how it ended."""
        figures = self.figures
        full = figures.usage is not None and figures.context >= self.heading.total
        end = ending(self.finish_reason, error=reply.error, full=full)
        if end.message:
            self.notify(end.message, severity="error" if reply.error else "warning", timeout=10, markup=False)
        if not figures.tokens:
            await self.withdraw()
        else:
            await self.page.finish(end.mark)
            if self.mode == "chat":
                self.turns.append(("assistant", self.conversation.source))
            self.held = figures.context
        self.reply, self.last, self.attempts = None, reply, self.attempts + 1
        self.status.memory = figures.usage.peak_memory if figures.usage else self.memory()
        self.tell(end.state, end.tone)
        self.refresh_bindings()

    async def withdraw(self) -> None:
        """Nothing came: put things back as they were before the question."""
        if self.mode == "completion":
            return await self.notebook.finish()
        await self.conversation.withdraw()
        _, text = self.turns.pop()
        if not self.prompt.text:
            self.prompt.load_text(text)
            self.prompt.move_cursor(self.prompt.document.end)

    @on(Notebook.Interrupted)
    def give_way(self, message: Notebook.Interrupted) -> None:
        """Whoever types into the text the model is writing takes over."""
        self.action_stop()
        self.call_next(self.notebook.insert, message.text)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        writing = self.reply is not None
        return writing if action == "stop" else not writing if action in ("again", "new") else True

    def action_stop(self) -> None:
        """End the reply: the model stops after the token it is computing."""
        if self.reply:
            self.reply.stop()
            self.call_next(self.flush)

    def action_interrupt(self) -> None:
        """Ctrl+C never quits: it copies, or stops, or tells how to leave."""
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
        elif self.reply:
            self.action_stop()
        else:
            self.notify("ctrl+q leaves chatapp.")

    async def action_again(self) -> None:
        """Take the last reply back and let the model try once more."""
        if self.mode == "completion":
            if self.notebook.continued:
                self.notebook.undo()
            else:
                self.notebook.gap = False
        elif self.turns:
            draft, (_, text) = self.prompt.text, self.turns[-2]
            del self.turns[-2:]
            await self.conversation.withdraw()
            self.prompt.load_text(text)
            await self.ask()
            return self.prompt.load_text(draft)
        await self.ask()

    async def action_new(self) -> None:
        """Start over with an empty page."""
        self.turns.clear()
        self.held, self.figures = 0, Figures()
        await self.page.clear()
        self.status.show("● ready", tone="success")
        self.text_changed()
