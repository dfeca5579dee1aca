"""Widget: one conversation on the screen: its page, its prompt, and the reply that is being written to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message as Event
from textual.widgets import TextArea

from chatapp.text.units import milliseconds
from chatapp.tui.chat.calls import Calls
from chatapp.tui.chat.completion_page import CompletionPage
from chatapp.tui.chat.outbox import Outbox
from chatapp.tui.chat.reply import BUSY, ReplyStream, settle
from chatapp.tui.chat.status import Heading, StatusLine, Welcome
from chatapp.tui.engines import Choice
from chatapp.tui.errors import telling
from chatapp.workspace import Opened

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, Turn
    from chatapp.generation import Delta, Engine, Token
    from chatapp.history import Kind, Message
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.chat.chat_page import ChatPage
    from chatapp.tui.chat.message import Said
    from chatapp.tui.prompt.prompt import Prompt
    from chatapp.tui.widgets.vim_area import VimArea


class Pane(Vertical):
    """One conversation: a chat with its messages and a prompt, or a text that is completed."""

    class Changed(Event):
        """The conversation has begun or ended a reply: who lists conversations looks again."""

    def __init__(
        self,
        choice: Choice,
        kind: Kind,
        *,
        memory: Callable[[], int],
        renew: Callable[[Kind, Choice], Dialogue],
        past: Callable[[], Sequence[str]],
        kept: bool = True,
    ) -> None:
        super().__init__()
        self.choice, self.kind, self.memory = choice, kind, memory
        self.renew, self.kept = renew, kept
        """What begins another conversation of a kind; whether this one is to be saved."""
        self.opened: Opened | None = None
        self.failure: str | None = None
        """Why there is no model."""
        self.before: tuple[Choice, Opened] | None = None
        """The model that answered, until another one is open that can take over."""
        self.heading, self.status, self.welcome = Heading(), StatusLine(), Welcome()
        self.calls, self.outbox, self.completion_page = Calls(), Outbox(past, busy=lambda: self.busy), CompletionPage()
        self.completion_page.busy = self.outbox.busy
        self.wanted = 0
        """How many continuations the model should write as soon as it is open."""
        self.newest: ReplyStream | None = None
        """The reply that is being written, or was written last."""
        self.columns: Columns | None = None
        """Several answers at once, until one of them is kept."""
        self.untold: list[tuple[str, Literal["warning", "error"]]] = []
        """What is to be said of this conversation when it is looked at."""

    def compose(self) -> ComposeResult:
        yield self.heading
        yield self.welcome
        yield self.calls
        yield self.outbox.note
        yield self.status

    async def on_mount(self) -> None:
        self.heading.model = self.choice.model
        self.status.show("○ loading", hint="type ahead: the model opens meanwhile")
        await self.show_page()

    def on_resize(self, event: events.Resize) -> None:
        self.welcome.fit(event.size)

    # Its page: a chat or a completion

    @cached_property
    def chat_page(self) -> ChatPage:
        """The messages; made when they are first wanted, for the first frame's sake."""
        from chatapp.tui.chat.chat_page import ChatPage

        return ChatPage()

    @property
    def prompt(self) -> Prompt:
        """Where messages are typed."""
        return self.outbox.prompt

    @property
    def page(self) -> ChatPage | CompletionPage:
        """Where the model writes."""
        return self.chat_page if self.kind == "chat" else self.completion_page

    @property
    def box(self) -> Prompt | CompletionPage:
        """Where the user writes."""
        return self.prompt if self.kind == "chat" else self.completion_page

    @property
    def dialogue(self) -> Dialogue | None:
        """The conversation that the page shows; until the history is open, there is none."""
        return self.page.dialogue

    @property
    def begun(self) -> bool:
        """Whether anything was said."""
        return self.dialogue is not None and bool(self.dialogue.branch())

    @property
    def number(self) -> int:
        """The number of the conversation in the list; below zero where it is only here."""
        kept = self.dialogue.conversation if self.dialogue else None
        return -id(self) if kept is None else kept

    async def change_kind(self, kind: Kind) -> None:
        """Chat or completion; an unsent text moves along."""
        before, source, self.kind = self.dialogue, self.box, kind
        if source.text and not self.box.text:
            self.box.load_text(source.text)
            self.box.move_cursor(self.box.document.end)
            source.load_text("")
        if before:
            before.keep_draft("")  # the text has moved
            self.page.dialogue = self.renew(kind, self.choice)
        await self.show_page()

    async def show_page(self) -> None:
        """Show the page, and the prompt of a chat; what was never shown is not mounted."""
        if not self.page.is_attached:
            await self.mount(self.page, before=self.welcome)
        if not self.box.is_attached:
            await self.mount(self.box, before=self.outbox.note)
        self.let_count()
        self.set_class(self.kind == "chat", "-chat")
        self.heading.mode = self.kind
        if self.display:
            self.screen.set_class(self.kind == "chat", "-talking")
            self.box.focus()
        self.text_changed()

    async def adopt(self, dialogue: Dialogue, draft: str = "") -> None:
        """The conversation that is shown from now on; what was typed meanwhile stays."""
        self.page.dialogue = dialogue
        self.heading.hold(self.page.tokens_measured)
        await self.page.open()
        if draft and (self.kind == "completion" or not self.box.text):
            self.box.draft = draft
        self.text_changed()
        await self.ask_if_wanted()

    # Its model

    def do_without(self, error: str) -> None:
        """The model could not be opened; the one before goes on to answer."""
        self.failure, self.wanted = error, 0
        self.outbox.give_back()
        if self.before:
            self.choice, opened = self.before
            return self.show_model(opened, f"{opened.name} stays")
        self.let_count()
        self.status.show_lack(error)
        self.text_changed()

    async def take_up(self, opened: Opened) -> None:
        """The model is open."""
        if self.kind == "chat" and self.begun and not opened.engine.can_chat:
            from chatapp.conversation.setup import NO_TEMPLATE

            self.notify(NO_TEMPLATE.format(opened.name), severity="error", timeout=10, markup=False)
            return self.do_without(NO_TEMPLATE.format(opened.name))
        if self.dialogue and (wrong := self.dialogue.change_model(opened.engine, self.choice.model)):
            self.notify(wrong, markup=False)
        self.show_model(opened, f"opened in {milliseconds(opened.seconds)}")
        if not self.begun and (self.kind == "chat") != opened.engine.can_chat:
            await self.change_kind("chat" if opened.engine.can_chat else "completion")
        await self.ask_if_wanted()

    def show_model(self, opened: Opened, hint: str) -> None:
        """This model answers from now on."""
        self.opened, self.failure, self.before = opened, None, None
        self.status.show_model(opened.place, self.memory(), hint)
        self.heading.show_model(opened)
        self.completion_page.gaps = opened.engine.can_infill
        self.screen.refresh_bindings()
        self.let_count()
        self.text_changed()

    def is_ready(self) -> bool:
        """Whether the model can be asked now; says why where it cannot."""
        if self.opened and self.dialogue and not self.busy:
            return True
        self.notify(BUSY if self.busy else self.failure or "The model is not open yet.", markup=False)
        return False

    # What is typed

    def let_count(self) -> None:
        """Let page and prompt count tokens as the model does, where one is open."""
        self.box.count_tokens = count = self.opened.engine.count_tokens if self.opened else None
        self.page.weigh(count)

    def let_go(self) -> None:
        """Let go of the model, which is opened again when this is shown again: others have its room in memory."""
        self.opened = None
        self.status.show("○ loading")
        self.let_count()

    @on(TextArea.Changed)
    def take_typing(self, message: TextArea.Changed) -> None:
        """Somebody types, perhaps while the model writes; a text that changes meanwhile is the model's doing."""
        if self.reply and message.text_area is not self.page:
            self.reply.typed = time.monotonic()
        self.text_changed()

    def text_changed(self) -> None:
        """Say hello on an empty page."""
        self.welcome.display = self.page.empty and not self.failure and not self.reply
        if self.welcome.display:
            self.welcome.show(self.kind, self.heading, self.opened, gaps=self.completion_page.gaps)

    def on_vim_area_counted(self, message: VimArea.Counted) -> None:
        if not self.reply and message.tokens is not None:
            self.heading.used = message.tokens + (self.heading.held if self.kind == "chat" else 0)

    def on_vim_area_mode_shown(self, message: VimArea.ModeShown) -> None:
        self.heading.vim = message.indicator

    # What the model is asked

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        """A message, or another version of one, is complete: it is answered now, or waits for its turn."""
        if self.failure:
            self.prompt.give_back(message.draft)
            return self.notify(self.failure, severity="error", timeout=10, markup=False)
        message.edited = self.outbox.leave_edit()
        if self.busy or not (self.opened and self.dialogue):
            return self.outbox.append(message)
        await self.send(message)

    async def send(self, message: Prompt.Submitted) -> None:
        """Have a message answered, or another version of one."""
        assert self.dialogue
        if not await self.start(self.outbox.begin(self.dialogue, message)):
            self.outbox.give_back_sent()

    async def ask(self, n: int = 1) -> None:
        """Let the model go on with the text, as soon as it is open and free."""
        if not (begin := self.completion_page.ask(n)):
            return
        if self.failure:
            self.notify(self.failure, severity="error", timeout=10, markup=False)
        elif self.reply:
            self.notify(BUSY)
        elif not self.opened or not self.dialogue:
            self.wanted = n
            self.status.show("○ loading", hint="the model will write as soon as it is open")
        else:
            await self.start(begin)

    async def ask_if_wanted(self) -> None:
        """Ask what was asked before the model was open."""
        if self.opened and self.dialogue and not self.busy:
            if self.outbox.queue:
                await self.send(self.outbox.pop())
            elif self.wanted:
                n, self.wanted = self.wanted, 0
                await self.ask(n)

    @on(CompletionPage.Asked)
    async def continue_text(self) -> None:
        await self.ask()

    @on(CompletionPage.Interrupted)
    def give_way(self, message: CompletionPage.Interrupted) -> None:
        """Whoever types into the text the model is writing takes over."""
        self.stop()
        self.call_next(message.act)

    async def on_said_wanted(self, message: Said.Wanted) -> None:
        """What the keys of a message do; what takes more than this conversation is the screen's."""
        match message.action:
            case "edit":
                self.outbox.edit(message.said)
            case "again":
                await self.again(message.said)
            case "older" | "newer" as age:
                await self.page.walk(-1 if age == "older" else 1, message.said)
                if not self.busy:
                    self.heading.hold(self.page.tokens_measured)

    async def several(self, n: int) -> None:
        """Let the model write several answers: to what is typed, or else to what was asked last."""
        if self.kind == "completion":
            await self.ask(n)
        elif not self.prompt.text.strip():
            await self.again(n=n)
        elif self.is_ready():
            self.prompt.send(n)

    async def again(self, said: Message | None = None, n: int = 1) -> None:
        """Answer once more: the last answer, or this one; the one before stays as another version."""
        if self.is_ready():
            await self.leave_columns()
            if begin := self.page.again(said, n):
                await self.start(begin)

    async def go_on(self, said: Message, tokens: Sequence[Token]) -> None:
        """Another version of an answer, which begins with these tokens."""
        await self.halt()
        if self.is_ready():
            await self.end_columns()
            if not await self.start(self.page.go_on(said, tokens)):
                await self.page.show()

    async def resume(self) -> None:
        """Let the last answer go on where it was cut off; a text goes on anyway."""
        if self.kind == "completion" and not self.reply:
            self.completion_page.action_go_on()
        elif self.is_ready():
            await settle(self.newest, self.page.show_end)
            if begin := self.chat_page.resume():
                await self.start(begin)

    # A reply, from its beginning to its end

    @property
    def reply(self) -> ReplyStream | None:
        """The reply that is being written."""
        return self.newest if self.newest and not self.newest.ended else None

    @property
    def busy(self) -> bool:
        """Whether a reply is being written, or tools are called for one."""
        return self.reply is not None or self.calls.busy

    async def start(self, begin: Callable[[Engine], Turn]) -> bool:
        """Begin something and let the model write it; whether that could be, which is told where not."""
        assert self.opened
        await self.leave_columns()
        with telling(self):
            turn = begin(self.opened.engine)
            self.outbox.show_tip("F10 shows the tree of beams" if turn.options.num_beams > 1 else "")
            ended, used = partial(self.call_later, self.take_end, turn), self.heading.used
            self.newest = reply = ReplyStream(turn, ended, after=self.newest, prompt_tokens=used)
            await self.page.await_reply(turn)
            if len(turn.replies) > 1:  # side by side, in place of the page
                from chatapp.tui.answers.columns import Columns

                self.columns = Columns(len(turn.replies))
                self.page.display = False
                await self.mount(self.columns, after=self.heading)
                self.columns.focus()
            self.text_changed()
            self.status.show("● reading", tone="accent", figures=reply.figures)
            self.screen.refresh_bindings()
            self.post_message(self.Changed())
            reply.show_in(self)
            return True
        self.page.release()
        return False

    async def grow(self, reply: ReplyStream, deltas: list[Delta]) -> None:
        """Show what arrived of a reply."""
        if self.columns:
            self.columns.take(deltas)
        elif deltas:
            await self.page.grow(deltas)
        if not reply.ended and reply.stale and time.monotonic() > reply.told + 0.2:  # faster cannot be read
            self.tell("● summing up" if reply.turn.summarising else f"● {reply.figures.doing}", "accent")

    async def take_end(self, turn: Turn) -> None:
        """The thread of a reply has ended, perhaps after its user stopped it."""
        if self.reply and self.reply.turn is turn:
            await self.reply.flush()
        elif not self.reply:
            await self.page.show_end()

    async def end(self, reply: ReplyStream) -> None:
        """The reply is over: keep what was written and say how it ended."""
        assert self.dialogue
        written, usage, error = bool(reply.figures.tokens), reply.figures.usage, reply.thread.error
        end = reply.describe_end(self.dialogue.setup.when_full, self.kind, self.heading.total)
        if end.message:
            self.untold.append((end.message, "error" if error else "warning"))
            self.tell_user()
        if self.columns:
            self.columns.finish_all()
            if not written:
                await self.end_columns()
        await self.page.finish(reply.turn, end.mark, written=written)
        if written:
            self.heading.hold(reply.context, reply.turn.left_out)
        elif reply.turn.question:
            self.outbox.give_back_sent(waiting=end.tone != "success")
        self.status.memory = usage.peak_memory if usage else self.memory()
        self.tell(end.state, end.tone, end.message if error else "")
        self.screen.refresh_bindings()
        if reply.is_long and not (self.app.app_focus and self.display):
            self.app.bell()
            self.notify(f"{self.heading.model} has answered.", markup=False)
        self.post_message(self.Changed())
        if written and reply.turn.calls and not error:
            return self.calls.begin(self.dialogue)
        if self.outbox.queue and end.tone == "success":
            await self.send(self.outbox.pop())
        else:
            self.outbox.give_back()  # it was cut off: now it is the user's turn
        if written and (tip := self.page.tip):
            self.outbox.show_tip(tip)

    def stop(self) -> None:
        """End the reply: the model stops after the token it is computing."""
        self.calls.action_stop()
        if self.reply:
            self.reply.stop()
            self.call_next(self.reply.flush)

    async def halt(self) -> None:
        """End the reply before anything else happens."""
        if self.reply:
            self.reply.stop()
            await self.reply.flush()

    def tell(self, state: str, tone: str, reason: str = "") -> None:
        """Show the figures, or why there are none."""
        assert (reply := self.newest)
        reply.stale, reply.told = False, time.monotonic()
        self.status.place = self.opened.place if self.opened else ""  # another one, where a backend failed
        total = self.heading.total
        self.heading.used = min(reply.context, total or reply.context)  # the very last token is never read
        self.heading.left_out = reply.turn.left_out
        self.status.show(state, tone=tone, reason=reason, figures=reply.figures)

    def tell_user(self) -> None:
        """Say in passing what there is to say of this conversation, once it is looked at."""
        if self.display and self.app.screen is self.screen:
            for text, severity in self.untold:
                self.notify(text, severity=severity, timeout=10, markup=False)
            self.untold.clear()

    async def on_calls_changed(self, message: Calls.Changed) -> None:
        """Show which tool is called, or asked about, and what was given so far."""
        self.status.show(f"● {message.doing}", tone="accent", hint="esc stops it")
        self.screen.refresh_bindings()
        await self.page.show()

    async def on_calls_ended(self, message: Calls.Ended) -> None:
        """Tools gave what they gave: the model goes on, or it is the user's turn."""
        await self.page.show()
        if message.goes_on and self.dialogue and await self.start(self.dialogue.go_on_with_results):
            return
        self.status.show("■ stopped", tone="warning", hint=message.reason)
        self.screen.refresh_bindings()
        await self.ask_if_wanted()

    # Several answers at once

    async def end_columns(self) -> None:
        """Show the page again."""
        if self.columns:
            await self.columns.remove()
            self.columns = None
            self.page.display = True

    async def leave_columns(self, index: int | None = None) -> None:
        """Keep one of several answers, or the best of them, where there are some; the others are its other versions."""
        if self.columns and self.dialogue and (reply := self.newest):
            index = self.columns.best if index is None else index
            await self.end_columns()
            reply.keep(index)
            self.heading.hold(reply.context, reply.turn.left_out)
            self.dialogue.select(reply.turn.replies[index].id)
            await self.page.show()

    async def on_columns_kept(self, message: Columns.Kept) -> None:
        await self.halt()
        await self.leave_columns(message.index)
        self.box.focus()

    async def on_columns_left(self, message: Columns.Left) -> None:
        if message.writing:
            self.stop()
        elif self.columns:
            await self.leave_columns()
            self.box.focus()
