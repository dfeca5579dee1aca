"""The prompt of a conversation, the messages that wait for an answer, and the note above the prompt."""

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
    """The prompt of a conversation and its unanswered messages."""

    def __init__(self, past: Callable[[], Sequence[str]], busy: Callable[[], bool]) -> None:
        self.past, self.busy = past, busy
        """Earlier prompts, the newest last (called in a thread); and whether the model is writing."""
        self.note = Static("", markup=False, classes="note")
        self.note.display = False
        self.sent: Prompt.Submitted | None = None
        """The message being answered, to be restored if no answer comes."""
        self.queue: list[Prompt.Submitted] = []
        """Messages waiting for the current reply to end."""
        self.editing: Message | None = None
        """The message being edited in the prompt."""
        self.draft = ""
        """What was in the prompt before the edit."""
        self.tip = ""
        """A hint, shown until the model writes again."""

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt widget; created on first use, to speed up the first frame."""
        from chatapp.commands.actions import listed
        from chatapp.tui.prompt.prompt import Prompt

        prompt = Prompt(past=self.past, commands=listed())
        prompt.busy = self.busy
        return prompt

    def show_note(self) -> None:
        """Update the note above the prompt: an edit, waiting messages, or a tip."""
        lines = ["Editing: enter resends, esc cancels"] if self.editing else []
        if self.queue:
            first, count = " ".join(self.queue[0].draft.split()), len(self.queue)
            lines.append(f"Waiting: {first}" if count == 1 else f"{count} messages waiting: {first}")
        line = "   ".join(lines) or self.tip
        self.note.update(printable(line))
        self.note.display = bool(line)

    def show_tip(self, tip: str) -> None:
        """Show a hint."""
        if self.tip != tip:
            self.tip = tip
            self.show_note()

    # Waiting messages

    def append(self, message: Prompt.Submitted) -> None:
        """Add a waiting message."""
        self.queue.append(message)
        self.show_note()

    def pop(self) -> Prompt.Submitted:
        """Take the message that has waited longest."""
        message = self.queue.pop(0)
        self.show_note()
        return message

    def begin(self, dialogue: Dialogue, message: Prompt.Submitted) -> Callable[[Engine], Turn]:
        """A function that begins the turn for a message, or for an edited one."""
        self.sent = message
        if message.edited:
            return partial(dialogue.edit, message=message.edited.id, text=message.text)
        return partial(dialogue.ask, text=message.text, n=message.n)

    def give_back(self) -> None:
        """Put waiting messages back into the prompt, before its text; an edit is resumed."""
        if self.queue:
            waiting, self.queue = self.queue, []
            for message in reversed(waiting):
                if message.edited and not self.editing:
                    self.edit(message.edited, message.draft)
                else:
                    self.put_first(message.draft)
            self.show_note()

    def give_back_sent(self, *, waiting: bool = False) -> None:
        """Put the message that got no answer back into the prompt, before other text."""
        if waiting:
            self.give_back()
        if self.sent:
            self.put_first(self.sent.draft)
            self.sent = None

    def put_first(self, draft: str) -> None:
        """Put a text before the prompt's; during an edit, before the draft restored afterwards."""
        if self.editing:
            self.draft = "\n".join(filter(None, [draft, self.draft]))
        else:
            self.prompt.give_back(draft)

    def unsent(self) -> str:
        """Everything that was typed and not answered."""
        drafts = [*(one.draft for one in self.queue), *self.prompt.sending]
        return "\n".join(filter(None, [*drafts, self.draft if self.editing else self.prompt.draft]))

    # Editing

    def edit(self, said: Message, text: str | None = None) -> None:
        """Put a message into the prompt to be edited, or `text` if an edit was begun before."""
        self.draft = self.draft if self.editing else self.prompt.draft
        self.editing = said
        self.prompt.draft = line_of(said.text) if text is None else text
        self.show_note()
        self.prompt.focus()

    def leave_edit(self) -> Message | None:
        """End an edit and restore the draft; returns the message that was edited."""
        edited, self.editing = self.editing, None
        if edited:
            self.prompt.draft = self.draft
            self.show_note()
        return edited
