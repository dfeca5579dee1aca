"""Widget: one conversation on the screen: its page, its prompt, and the reply in progress."""

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
    """One conversation: a chat with messages and a prompt, or a completion."""

    class Changed(Event):
        """A reply has begun or ended."""

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
        """Creates a new conversation of a kind; and whether this one is saved."""
        self.opened: Opened | None = None
        self.failure: str | None = None
        """Why there is no model."""
        self.before: tuple[Choice, Opened] | None = None
        """The previous model, kept until a new one has opened and can take over."""
        self.heading, self.status, self.welcome = Heading(), StatusLine(), Welcome()
        self.calls, self.outbox, self.completion_page = Calls(), Outbox(past, busy=lambda: self.busy), CompletionPage()
        self.completion_page.busy = self.outbox.busy
        self.wanted = 0
        """How many continuations to write once the model is open."""
        self.newest: ReplyStream | None = None
        """The reply in progress, or the last one."""
        self.columns: Columns | None = None
        """Several answers side by side, until one is chosen."""
        self.notices: list[tuple[str, Literal["warning", "error"]]] = []
        """Notifications to show when this conversation is visible."""

    def compose(self) -> ComposeResult:
        yield self.heading
        yield self.welcome
        yield self.calls
        yield self.outbox.note
        yield self.status

    async def on_mount(self) -> None:
        self.heading.model = self.choice.model
        self.status.show("○ loading", hint="go ahead and type while it loads")
        await self.show_page()

    def on_resize(self, event: events.Resize) -> None:
        self.welcome.fit(event.size)

    # The page: a chat or a completion

    @cached_property
    def chat_page(self) -> ChatPage:
        """The page of a chat; created on first use, to speed up the first frame."""
        from chatapp.tui.chat.chat_page import ChatPage

        return ChatPage()

    @property
    def prompt(self) -> Prompt:
        """The prompt of a chat."""
        return self.outbox.prompt

    @property
    def page(self) -> ChatPage | CompletionPage:
        """The page that is shown, where the model writes."""
        return self.chat_page if self.kind == "chat" else self.completion_page

    @property
    def box(self) -> Prompt | CompletionPage:
        """The text area where the user writes."""
        return self.prompt if self.kind == "chat" else self.completion_page

    @property
    def dialogue(self) -> Dialogue | None:
        """The conversation; None until the history is open."""
        return self.page.dialogue

    @property
    def begun(self) -> bool:
        """Whether the conversation has messages."""
        return self.dialogue is not None and bool(self.dialogue.branch())

    @property
    def number(self) -> int:
        """The conversation's id; negative if it is not in the history."""
        kept = self.dialogue.conversation if self.dialogue else None
        return -id(self) if kept is None else kept

    async def change_kind(self, kind: Kind) -> None:
        """Switch between chat and completion; unsent text moves along."""
        before, source, self.kind = self.dialogue, self.box, kind
        if source.text and not self.box.text:
            self.box.load_text(source.text)
            self.box.move_cursor(self.box.document.end)
            source.load_text("")
        if before:
            before.keep_draft("")  # the text has moved to the new conversation
            self.page.dialogue = self.renew(kind, self.choice)
        await self.show_page()

    async def show_page(self) -> None:
        """Show the page, and for a chat the prompt, mounting them on first use."""
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
        """Show a conversation; what was typed meanwhile stays."""
        self.page.dialogue = dialogue
        self.heading.hold(self.page.tokens_measured)
        await self.page.open()
        if draft and (self.kind == "completion" or not self.box.text):
            self.box.draft = draft
        self.text_changed()
        await self.ask_if_wanted()

    # The model

    def model_failed(self, error: str) -> None:
        """The model could not be opened; continue with the previous one if there is one."""
        self.failure, self.wanted = error, 0
        self.outbox.give_back()
        if self.before:
            self.choice, opened = self.before
            return self.show_model(opened, f"{opened.name} stays in use")
        self.let_count()
        self.status.show_lack(error)
        self.text_changed()

    async def model_opened(self, opened: Opened) -> None:
        """The model is open."""
        if self.kind == "chat" and self.begun and not opened.engine.can_chat:
            from chatapp.conversation.setup import NO_TEMPLATE

            self.notify(NO_TEMPLATE.format(opened.name), severity="error", timeout=10, markup=False)
            return self.model_failed(NO_TEMPLATE.format(opened.name))
        if self.dialogue and (wrong := self.dialogue.change_model(opened.engine, self.choice.model)):
            self.notify(wrong, markup=False)
        self.show_model(opened, f"loaded in {milliseconds(opened.seconds)}")
        if not self.begun and (self.kind == "chat") != opened.engine.can_chat:
            await self.change_kind("chat" if opened.engine.can_chat else "completion")
        await self.ask_if_wanted()

    def show_model(self, opened: Opened, hint: str) -> None:
        """Use this model from now on."""
        self.opened, self.failure, self.before = opened, None, None
        self.status.show_model(opened.place, self.memory(), hint)
        self.heading.show_model(opened)
        self.completion_page.gaps = opened.engine.can_infill
        self.screen.refresh_bindings()
        self.let_count()
        self.text_changed()

    def is_ready(self) -> bool:
        """Whether the model can be asked now; notifies the user why not."""
        if self.opened and self.dialogue and not self.busy:
            return True
        self.notify(BUSY if self.busy else self.failure or "The model is still loading.", markup=False)
        return False

    # Typing

    def let_count(self) -> None:
        """Let page and prompt count tokens with the model, if one is open."""
        self.box.count_tokens = count = self.opened.engine.count_tokens if self.opened else None
        self.page.recount(count)

    def release_model(self) -> None:
        """Release the model to free memory; it is opened again when the pane is shown."""
        self.opened = None
        self.status.show("○ loading")
        self.let_count()

    @on(TextArea.Changed)
    def take_typing(self, message: TextArea.Changed) -> None:
        """The text has changed, by the user or, on a completion page, by the model."""
        if self.reply and message.text_area is not self.page:
            self.reply.typed = time.monotonic()
        self.text_changed()

    def text_changed(self) -> None:
        """Show the welcome text on an empty page."""
        self.welcome.display = self.page.empty and not self.failure and not self.reply
        if self.welcome.display:
            self.welcome.show(self.kind, self.heading, self.opened, gaps=self.completion_page.gaps)

    def on_vim_area_counted(self, message: VimArea.Counted) -> None:
        if not self.reply and message.tokens is not None:
            self.heading.used = message.tokens + (self.heading.held if self.kind == "chat" else 0)

    def on_vim_area_mode_shown(self, message: VimArea.ModeShown) -> None:
        self.heading.vim = message.indicator

    # Asking the model

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        """A message, or an edit of one, was sent: answer it now, or queue it."""
        if self.failure:
            self.prompt.give_back(message.draft)
            return self.notify(self.failure, severity="error", timeout=10, markup=False)
        message.edited = self.outbox.leave_edit()
        if self.busy or not (self.opened and self.dialogue):
            return self.outbox.append(message)
        await self.send(message)

    async def send(self, message: Prompt.Submitted) -> None:
        """Answer a message or an edit of one."""
        assert self.dialogue
        if not await self.start(self.outbox.begin(self.dialogue, message)):
            self.outbox.give_back_sent()

    async def ask(self, n: int = 1) -> None:
        """Continue the text n times, as soon as the model is open and free."""
        if not (begin := self.completion_page.ask(n)):
            return
        if self.failure:
            self.notify(self.failure, severity="error", timeout=10, markup=False)
        elif self.reply:
            self.notify(BUSY)
        elif not self.opened or not self.dialogue:
            self.wanted = n
            self.status.show("○ loading", hint="the model writes as soon as it is loaded")
        else:
            await self.start(begin)

    async def ask_if_wanted(self) -> None:
        """Ask what was requested before the model was open."""
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
    def stop_for_typing(self, message: CompletionPage.Interrupted) -> None:
        """Stop the model because the user types into its text."""
        self.stop()
        self.call_next(message.act)

    async def on_said_wanted(self, message: Said.Wanted) -> None:
        """Message actions that concern only this conversation; the screen handles the others."""
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
        """Let the model write n answers to the typed message, or to the last one."""
        if self.kind == "completion":
            await self.ask(n)
        elif not self.prompt.text.strip():
            await self.again(n=n)
        elif self.is_ready():
            self.prompt.send(n)

    async def again(self, said: Message | None = None, n: int = 1) -> None:
        """Write n more answers beside this one, or beside the last."""
        if self.is_ready():
            await self.leave_columns()
            if begin := self.page.again(said, n):
                await self.start(begin)

    async def go_on(self, said: Message, tokens: Sequence[Token]) -> None:
        """Write another version of an answer that begins with these tokens."""
        await self.halt()
        if self.is_ready():
            await self.end_columns()
            if not await self.start(self.page.go_on(said, tokens)):
                await self.page.show()

    async def resume(self) -> None:
        """Continue the last answer where it was cut off, or the text."""
        if self.kind == "completion" and not self.reply:
            self.completion_page.action_go_on()
        elif self.is_ready():
            await settle(self.newest, self.page.show_end)
            if begin := self.chat_page.resume():
                await self.start(begin)

    # The reply

    @property
    def reply(self) -> ReplyStream | None:
        """The reply in progress, or None."""
        return self.newest if self.newest and not self.newest.ended else None

    @property
    def busy(self) -> bool:
        """Whether a reply is being written, or tool calls are running."""
        return self.reply is not None or self.calls.busy

    async def start(self, begin: Callable[[Engine], Turn]) -> bool:
        """Begin a turn and show its replies; returns whether it began, notifying the user if not."""
        assert self.opened
        await self.leave_columns()
        with telling(self):
            turn = begin(self.opened.engine)
            self.outbox.show_tip("F10 shows the tree of beams" if turn.options.num_beams > 1 else "")
            ended, used = partial(self.call_later, self.take_end, turn), self.heading.used
            self.newest = reply = ReplyStream(turn, ended, after=self.newest, prompt_tokens=used)
            await self.page.await_reply(turn)
            if len(turn.replies) > 1:  # shown side by side instead of the page
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
        """Show deltas of a reply."""
        if self.columns:
            self.columns.take(deltas)
        elif deltas:
            await self.page.grow(deltas)
        if not reply.ended and reply.stale and time.monotonic() > reply.told + 0.2:  # faster cannot be read
            self.show_figures("● summarising" if reply.turn.summarising else f"● {reply.figures.doing}", "accent")

    async def take_end(self, turn: Turn) -> None:
        """The thread of a reply has ended, perhaps after the user stopped it."""
        if self.reply and self.reply.turn is turn:
            await self.reply.flush()
        elif not self.reply:
            await self.page.show_end()

    async def end(self, reply: ReplyStream) -> None:
        """The reply has ended: keep its text, show how it ended, and send the next waiting message."""
        assert self.dialogue
        written, usage, error = bool(reply.figures.tokens), reply.figures.usage, reply.thread.error
        end = reply.describe_end(self.dialogue.setup.when_full, self.kind, self.heading.total)
        if end.message:
            self.notices.append((end.message, "error" if error else "warning"))
            self.show_notices()
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
        self.show_figures(end.state, end.tone, end.message if error else "")
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
            self.outbox.give_back()  # it was cut off: let the user decide
        if written and (tip := self.page.tip):
            self.outbox.show_tip(tip)

    def stop(self) -> None:
        """Stop the reply after the token being computed."""
        self.calls.action_stop()
        if self.reply:
            self.reply.stop()
            self.call_next(self.reply.flush)

    async def halt(self) -> None:
        """Stop the reply and show its end before anything else happens."""
        if self.reply:
            self.reply.stop()
            await self.reply.flush()

    def show_figures(self, state: str, tone: str, reason: str = "") -> None:
        """Update the status line and the heading with the reply's figures."""
        assert (reply := self.newest)
        reply.stale, reply.told = False, time.monotonic()
        self.status.place = self.opened.place if self.opened else ""  # changes if a backend fails
        total = self.heading.total
        self.heading.used = min(reply.context, total or reply.context)  # the last token is never fed to the model
        self.heading.left_out = reply.turn.left_out
        self.status.show(state, tone=tone, reason=reason, figures=reply.figures)

    def show_notices(self) -> None:
        """Show pending notifications if this conversation is visible."""
        if self.display and self.app.screen is self.screen:
            for text, severity in self.notices:
                self.notify(text, severity=severity, timeout=10, markup=False)
            self.notices.clear()

    async def on_calls_changed(self, message: Calls.Changed) -> None:
        """Show the state of the tool calls, and their results so far."""
        self.status.show(f"● {message.doing}", tone="accent", hint="esc stops it")
        self.screen.refresh_bindings()
        await self.page.show()

    async def on_calls_ended(self, message: Calls.Ended) -> None:
        """The tool calls have ended: let the model continue, or the user."""
        await self.page.show()
        if message.goes_on and self.dialogue and await self.start(self.dialogue.go_on_with_results):
            return
        self.status.show("■ stopped", tone="warning", hint=message.reason)
        self.screen.refresh_bindings()
        await self.ask_if_wanted()

    # Several answers at once

    async def end_columns(self) -> None:
        """Replace the columns by the page again."""
        if self.columns:
            await self.columns.remove()
            self.columns = None
            self.page.display = True

    async def leave_columns(self, index: int | None = None) -> None:
        """Choose one of several answers, by default the best; the others become its other versions."""
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
