"""Widget: where messages are typed, wait for their turn, and come back where nothing came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.tui.chat.reply import Ending
from chatapp.tui.chat.writing import Writing
from chatapp.tui.engines import Choice

if TYPE_CHECKING:
    from chatapp.conversation import Turn
    from chatapp.history import Kind, Message
    from chatapp.tui.prompt.prompt import Prompt
    from chatapp.tui.widgets.vim_area import VimArea

BUSY = "The model is writing: esc stops it."


class Prompting(Writing):
    """A conversation with its prompt, and the messages in it that were not answered yet."""

    def __init__(
        self, choice: Choice, kind: Kind, memory: Callable[[], int], past: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__(choice, kind, memory)
        self.past = past
        """What was asked before, the newest last; called in a thread."""
        self.notebook.busy = lambda: self.reply is not None
        self.note = Static("", markup=False, classes="note")
        self.failure: str | None = None
        """Why there is no model."""
        self.sent: Prompt.Submitted | None = None
        """The message that is being answered, to be given back if nothing comes."""
        self.queue: list[Prompt.Submitted] = []
        """Messages that wait for the reply to end."""
        self.editing: Message | None = None
        """The message whose new version is in the prompt."""
        self.draft = ""
        """What was in the prompt before that."""
        self.tip = ""
        """What can be done next, told until the model writes again."""

    @cached_property
    def prompt(self) -> Prompt:
        """Where messages are typed; made when it is first wanted, for the first frame's sake."""
        from chatapp.commands import parse
        from chatapp.tui.prompt.prompt import Prompt

        prompt = Prompt(past=self.past, commands=parse.table())
        prompt.busy = self.notebook.busy
        return prompt

    @property
    def begun(self) -> bool:
        """Whether anything was said."""
        return self.dialogue is not None and bool(self.dialogue.branch())

    def on_vim_area_mode_shown(self, message: VimArea.ModeShown) -> None:
        self.heading.vim = message.indicator

    def on_prompt_counted(self, message: Prompt.Counted) -> None:
        if not self.reply and message.tokens is not None:
            self.heading.used = message.tokens + self.held

    def on_prompt_refused(self, message: Prompt.Refused) -> None:
        self.notify(message.reason, severity="warning", timeout=10, markup=False)

    def on_prompt_warned(self, message: Prompt.Warned) -> None:
        self.notify(message.reason, severity="warning", timeout=10, markup=False)

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        """A message is complete: it is answered now, or waits for its turn."""
        if self.failure:
            self.prompt.give_back(message.draft)
            self.notify(self.failure, severity="error", timeout=10, markup=False)
        elif self.reply or not (self.opened and self.dialogue):
            self.queue.append(message)
            self.show_note()
        else:
            await self.say(message)

    async def say(self, message: Prompt.Submitted) -> None:
        """Send a message, or another version of one."""
        assert self.opened and self.dialogue
        if self.columns and self.kind == "chat":
            await self.keep(self.columns.best)
        self.sent = message
        if self.editing:
            edited, self.editing = self.editing, None
            begun = await self.start(partial(self.dialogue.edit, self.opened.engine, edited.id, message.text))
            self.prompt.draft = self.draft
            self.show_note()
        else:
            begun = await self.start(partial(self.dialogue.ask, self.opened.engine, message.text, message.n))
        if not begun:
            self.prompt.give_back(message.draft)

    async def take_back(self, turn: Turn) -> None:
        if turn.question and self.sent:
            self.prompt.give_back(self.sent.draft)
        self.sent = None

    async def after_reply(self, end: Ending) -> None:
        """Send what waits, unless the answer was cut off: then it is the user's turn."""
        if not self.queue:
            return
        if end.tone == "success":
            await self.say(self.next_message())
        else:
            self.give_back()

    def next_message(self) -> Prompt.Submitted:
        """The message that has waited for longest."""
        message = self.queue.pop(0)
        self.show_note()
        return message

    def give_back(self) -> None:
        """Put what waits back into the prompt, before what is typed there."""
        if self.queue:
            waiting, self.queue = self.queue, []
            for message in reversed(waiting):
                self.prompt.give_back(message.draft)
            self.show_note()

    def show_tip(self, tip: str) -> None:
        """Say what can be done next."""
        self.tip = tip
        self.show_note()

    async def draw(self, turn: Turn) -> None:
        if self.tip:
            self.show_tip("")
        await super().draw(turn)

    def show_note(self) -> None:
        """What the prompt is for just now, where that is not plain: an edit, messages that wait, a tip."""
        if self.editing:
            line = "Editing. enter: resend  esc: cancel"
        elif self.queue:
            first = " ".join(self.queue[0].draft.split())
            line = f"Waiting: {first}" if len(self.queue) == 1 else f"{len(self.queue)} messages wait: {first}"
        else:
            line = self.tip
        self.note.update(printable(line))
        self.note.display = bool(line)

    def edit(self, said: Message) -> None:
        """Put a message into the prompt, to be sent again in other words."""
        self.draft = self.draft if self.editing else self.prompt.draft
        self.editing = said
        self.prompt.draft = said.text
        self.show_note()
        self.prompt.focus()

    def leave_edit(self) -> bool:
        """Give up an edit; whether there was one."""
        if not self.editing:
            return False
        self.editing = None
        self.prompt.draft = self.draft
        self.show_note()
        return True

    def keep_draft(self) -> None:
        """Keep what was typed and not sent: a text as it is, a message in the conversation, if there is one yet."""
        if self.dialogue and self.kind == "completion":
            if not self.reply and not self.columns and (self.begun or self.notebook.text.strip()):
                self.dialogue.write(self.notebook.parts())
        elif self.dialogue and self.begun:
            unsent = [*(one.draft for one in self.queue), *self.prompt.sending]
            unsent.append(self.draft if self.editing else self.prompt.draft)
            self.dialogue.keep_draft("\n".join(filter(None, unsent)))
