"""Widget: one conversation on the screen, with the reply that is being written to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message as Event
from textual.widget import Widget
from textual.widgets import TextArea

from chatapp.text.printable import printable
from chatapp.text.units import count, milliseconds
from chatapp.tui.chat.asking import BUSY
from chatapp.tui.chat.continuing import Continuing
from chatapp.tui.chat.welcome import Welcome
from chatapp.tui.engines import Choice
from chatapp.workspace import Opened

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue
    from chatapp.generation import Token
    from chatapp.history import Kind, Message
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.chat.message import Said


class Pane(Continuing):
    """One conversation: chat with a transcript and a prompt, or completion in a notebook."""

    @dataclass
    class Counted(Event):
        """The text that is being typed takes so many tokens."""

        pane: Pane
        tokens: int

    @dataclass
    class Wanted(Event):
        """Something is wanted that takes more than this conversation: `fork`, `heat` or `latencies` of a message."""

        pane: Pane
        deed: str
        said: Message

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
        super().__init__(choice, kind, memory, past)
        self.kept = kept
        """Whether it is to be saved."""
        self.renew = renew
        """What begins another conversation of a kind."""
        self.welcome = Welcome()

    def compose(self) -> ComposeResult:
        self.note.display = False
        yield self.heading
        yield self.welcome
        yield self.note
        yield self.status

    async def on_mount(self) -> None:
        self.heading.model = self.choice.model
        self.status.show("○ loading", hint="type ahead: the model opens meanwhile")
        await self.show_kind()

    # The model

    def progress(self, step: str, share: float) -> None:
        """The model is being opened."""
        self.status.show("○ loading", hint=f"{step} {share:.0%}")

    def do_without(self, error: str) -> None:
        """The model could not be opened."""
        self.failure, self.wanted = error, 0
        self.give_back()
        self.status.place, self.status.memory = "", 0
        hint = "what you typed stays here; ^O chooses another model"
        self.status.show("✗ no model", tone="error", hint=hint, reason=printable(" ".join(error.split())))
        self.text_changed()

    async def take_up(self, opened: Opened) -> None:
        """The model is open."""
        if self.kind == "chat" and self.begun and not opened.engine.can_chat:
            from chatapp.commands.steering import NO_TEMPLATE

            self.notify(NO_TEMPLATE.format(opened.name), severity="error", timeout=10, markup=False)
            return self.do_without(NO_TEMPLATE.format(opened.name))
        if self.dialogue and "think" in self.dialogue.setup.options and not opened.engine.can_switch_thinking:
            from chatapp.conversation.setup import NO_SWITCH

            self.notify(NO_SWITCH.format(opened.name), markup=False)
            self.dialogue.change(self.dialogue.setup.without_thinking())
        self.opened, self.failure = opened, None
        self.status.place, self.status.memory = opened.place, self.memory()
        self.heading.model, self.heading.about = opened.name, f"{count(opened.parameters)} parameters"
        self.heading.total = opened.engine.context_length
        self.notebook.gaps = opened.engine.can_infill
        self.status.show("● ready", tone="success", hint=f"opened in {milliseconds(opened.seconds)}")
        if not self.begun and (self.kind == "chat") != opened.engine.can_chat:
            await self.change_kind("chat" if opened.engine.can_chat else "completion")
        self.let_prompt_count()
        self.text_changed()
        await self.ask_if_wanted()

    async def adopt(self, dialogue: Dialogue, draft: str = "") -> None:
        """The conversation that is shown from now on; what was typed meanwhile stays."""
        self.dialogue = dialogue
        if dialogue.kind != self.kind:
            await self.change_kind(dialogue.kind)
        if self.kind == "chat":
            self.reckon()
            await self.transcript.show(dialogue.branch())
            if draft and not self.prompt.text:
                self.prompt.draft = draft
        elif self.begun:
            self.notebook.load([(one.role, one.text) for one in dialogue.branch()])
        self.text_changed()
        await self.ask_if_wanted()

    async def ask_if_wanted(self) -> None:
        """Ask what was asked before the model was open."""
        if self.opened and self.dialogue and not self.reply:
            if self.queue:
                await self.say(self.next_message())
            elif self.wanted:
                n, self.wanted = self.wanted, 0
                await self.ask(n)

    # Chat or completion

    @property
    def box(self) -> TextArea:
        """Where the user writes."""
        return self.prompt if self.kind == "chat" else self.notebook

    @property
    def unsaved(self) -> bool:
        """Whether something here is nowhere else."""
        if not self.dialogue or not self.begun:
            return bool(self.box.text)
        return self.dialogue.conversation is None or self.dialogue.failure is not None

    async def change_kind(self, kind: Kind) -> None:
        """Chat or completion; an unsent text moves along."""
        source, self.kind = self.box, kind
        if source.text and not self.box.text:
            self.box.load_text(source.text)
            self.box.move_cursor(self.box.document.end)
            source.load_text("")
        if self.dialogue:
            self.dialogue = self.renew(kind, self.choice)
        await self.show_kind()

    async def show_kind(self) -> None:
        """Show the notebook, or the transcript and the prompt; what was never shown is not mounted."""
        before: tuple[tuple[Widget, Widget], ...] = ((self.page, self.welcome),)
        if self.kind == "chat":
            before += ((self.prompt, self.note),)
            self.let_prompt_count()
        for part, next_one in before:
            if not part.is_attached:
                await self.mount(part, before=next_one)
        self.set_class(self.kind == "chat", "-chat")
        self.heading.mode = self.kind
        if self.display:
            self.screen.set_class(self.kind == "chat", "-talking")
            self.box.focus()
        self.text_changed()

    def let_prompt_count(self) -> None:
        """Let the prompt count tokens as the model does."""
        if self.kind == "chat" and self.opened:
            self.prompt.count_tokens = self.opened.engine.count_tokens
            self.transcript.weigh(self.opened.engine.count_tokens)

    @on(TextArea.Changed)
    def take_typing(self) -> None:
        """Somebody types, perhaps while the model writes; a text that changes meanwhile is the model's doing."""
        if self.reply and self.kind == "chat":
            self.typed = time.monotonic()
        self.text_changed()

    def text_changed(self) -> None:
        """Say hello on an empty page, and count what was typed."""
        empty = not self.begun if self.kind == "chat" else not self.notebook.text
        self.welcome.display = empty and not self.failure and not self.reply
        if self.welcome.display:
            self.welcome.show(self.kind, self.heading.model, self.heading.about, gaps=self.notebook.gaps)
        if not self.reply and self.kind == "completion":
            self.count_tokens()

    @work(thread=True, exclusive=True, group="count")
    def count_tokens(self) -> None:
        if opened := self.opened:  # another one may be chosen meanwhile
            self.post_message(self.Counted(self, opened.engine.count_tokens(self.notebook.text)))

    def on_pane_counted(self, message: Counted) -> None:
        if not self.reply:
            self.heading.used = message.tokens

    # Several answers at once

    async def several(self, n: int) -> None:
        """Let the model write several answers: to what is typed, or else to what was asked last."""
        if self.kind == "completion":
            await self.ask(n)
        elif self.prompt.text.strip():
            if self.reply or not (self.opened and self.dialogue):
                return self.notify(BUSY if self.reply else self.failure or "The model is not open yet.", markup=False)
            self.prompt.send(n)
        else:
            await self.again(n=n)

    async def on_columns_kept(self, message: Columns.Kept) -> None:
        await self.halt()
        if self.columns:
            await self.keep(message.index)
        self.box.focus()

    async def on_columns_left(self, message: Columns.Left) -> None:
        if message.writing:
            self.stop()
        elif self.columns:
            await self.keep(message.best)
            self.box.focus()

    # Messages

    async def on_said_wanted(self, message: Said.Wanted) -> None:
        """What the keys of a message do."""
        said, deed = message.said, message.deed
        match deed:
            case "edit":
                self.edit(said)
            case "again":
                await self.again(said)
            case "older" | "newer":
                await self.walk(said, -1 if deed == "older" else 1)
            case _:
                self.post_message(self.Wanted(self, deed, said))

    async def again(self, said: Message | None = None, n: int = 1) -> None:
        """Answer once more: the last answer, or this one; the one before stays as another version."""
        if self.reply:
            self.notify(BUSY)
        elif not self.opened or not self.dialogue:
            self.notify(self.failure or "The model is not open yet.", markup=False)
        elif self.kind == "completion":
            await self.vary(n)
        elif said or (said := self.last_answer):
            await self.start(partial(self.dialogue.again, self.opened.engine, said.id, n))

    async def go_on(self, said: Message, tokens: Sequence[Token]) -> None:
        """Another version of an answer, which begins with these tokens."""
        await self.halt()
        if not self.opened or not self.dialogue:
            return self.notify(self.failure or "The model is not open yet.", markup=False)
        await self.end_columns()
        if self.kind == "completion":
            await self.continue_from(said, tokens)
        else:
            await self.start(partial(self.dialogue.go_on, self.opened.engine, said.id, tokens))

    async def resume(self) -> None:
        """Let the last answer go on where it was cut off; a text goes on anyway."""
        if self.reply:
            self.notify(BUSY)
        elif self.kind == "completion":
            self.notebook.action_go_on()
        elif not self.opened or not self.dialogue:
            self.notify(self.failure or "The model is not open yet.", markup=False)
        elif said := self.last_answer:
            await self.start(partial(self.dialogue.resume, self.opened.engine, said.id))

    @property
    def last_answer(self) -> Message | None:
        """The model's last message."""
        return self.last_of("assistant")

    @property
    def last_question(self) -> Message | None:
        """The user's last message."""
        return self.last_of("user")

    async def walk(self, said: Message, step: int) -> None:
        """Show the version of a message that is older or newer."""
        place = said.versions.index(said.id) + step
        if self.reply:
            self.notify(BUSY)
        elif self.dialogue and 0 <= place < len(said.versions):
            self.dialogue.select(said.versions[place])
            await self.show_branch()
            self.transcript.focus_on(said.versions[place])

    async def reach(self, message: int) -> None:
        """Show the branch with a message, and scroll there."""
        assert self.dialogue
        if all(one.id != message for one in self.dialogue.branch()):
            self.dialogue.select(message)
            await self.show_branch()
        if self.kind == "chat":
            await self.transcript.reach(message)
