"""Messages that are typed, edited, or wait to be answered, with the line above the prompt that tells of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from textual.widgets import Static

from chatapp.commands.parse import line_of
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, Turn
    from chatapp.generation import Engine
    from chatapp.history import Message
    from chatapp.tui.prompt.prompt import Prompt


class Outbox:
    """The prompt of a conversation, and its messages that are not answered yet."""

    def __init__(self, past: Callable[[], Sequence[str]], busy: Callable[[], bool]) -> None:
        self.past, self.busy = past, busy
        """What was asked before, the newest last, called in a thread; whether the model is writing."""
        self.note = Static("", markup=False, classes="note")
        self.note.display = False
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
        from chatapp.commands.actions import listed
        from chatapp.tui.prompt.prompt import Prompt

        prompt = Prompt(past=self.past, commands=listed())
        prompt.busy = self.busy
        return prompt

    def show_note(self) -> None:
        """Say what the prompt is for just now, where that is not plain: an edit, messages that wait, a tip."""
        lines = ["Editing. enter: resend  esc: cancel"] if self.editing else []
        if self.queue:
            first, count = " ".join(self.queue[0].draft.split()), len(self.queue)
            lines.append(f"Waiting: {first}" if count == 1 else f"{count} messages wait: {first}")
        line = "   ".join(lines) or self.tip
        self.note.update(printable(line))
        self.note.display = bool(line)

    def show_tip(self, tip: str) -> None:
        """Say what can be done next."""
        if self.tip != tip:
            self.tip = tip
            self.show_note()

    # Messages that wait

    def append(self, message: Prompt.Submitted) -> None:
        """Let a message wait for its turn."""
        self.queue.append(message)
        self.show_note()

    def pop(self) -> Prompt.Submitted:
        """Take the message that has waited for longest."""
        message = self.queue.pop(0)
        self.show_note()
        return message

    def begin(self, dialogue: Dialogue, message: Prompt.Submitted) -> Callable[[Engine], Turn]:
        """What begins the answer to a message, or to another version of one."""
        self.sent = message
        if message.edited:
            return partial(dialogue.edit, message=message.edited.id, text=message.text)
        return partial(dialogue.ask, text=message.text, n=message.n)

    def give_back(self) -> None:
        """Put what waits back into the prompt, before what is typed there; an edit is one again."""
        if self.queue:
            waiting, self.queue = self.queue, []
            for message in reversed(waiting):
                if message.edited and not self.editing:
                    self.edit(message.edited, message.draft)
                else:
                    self.put_first(message.draft)
            self.show_note()

    def give_back_sent(self, *, waiting: bool = False) -> None:
        """Put the message that got no answer back into the prompt, before what waits or is typed there."""
        if waiting:
            self.give_back()
        if self.sent:
            self.put_first(self.sent.draft)
            self.sent = None

    def put_first(self, draft: str) -> None:
        """Put a text before what is typed; while a message is edited, before what comes back after that."""
        if self.editing:
            self.draft = "\n".join(filter(None, [draft, self.draft]))
        else:
            self.prompt.give_back(draft)

    def unsent(self) -> str:
        """Everything that was typed and not sent."""
        drafts = [*(one.draft for one in self.queue), *self.prompt.sending]
        return "\n".join(filter(None, [*drafts, self.draft if self.editing else self.prompt.draft]))

    # A message that is edited

    def edit(self, said: Message, text: str | None = None) -> None:
        """Put a message into the prompt, to be sent again in other words; or those, where some were sent already."""
        self.draft = self.draft if self.editing else self.prompt.draft
        self.editing = said
        self.prompt.draft = line_of(said.text) if text is None else text
        self.show_note()
        self.prompt.focus()

    def leave_edit(self) -> Message | None:
        """Give up an edit; gives the message that was edited."""
        edited, self.editing = self.editing, None
        if edited:
            self.prompt.draft = self.draft
            self.show_note()
        return edited
