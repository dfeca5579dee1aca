"""Widget: the text of a completion, written by user and model together, with its versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import events, on, work
from textual.binding import Binding
from textual.message import Message as Event
from textual.worker import get_current_worker

from chatapp.text.printable import printable
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.widgets.authored_text import AuthoredText

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, Turn
    from chatapp.conversation.texts import Reached
    from chatapp.generation import Delta, Engine, Token
    from chatapp.generation import Message as Prompted
    from chatapp.history import Message as Kept
    from chatapp.history import Role

EXAMPLE = "class Stack:\n    def __init__(self): self.items = []\n    def __len__(self):"
"""A text that the built-in model continues well, even when sampling."""
GAP_EXAMPLE = (
    "class Account:\n    def __init__(self, name, balance):\n        ",
    "\n        self.balance = balance\n\n    def deposit(self, amount):\n        self.balance += amount\n",
)
"""The text before and after a gap that the built-in model fills well."""
COMMAND = re.compile(r"/[A-Za-z?]+(?:\s.*)?")
"""A text that is a slash command, if it is the only line."""
SURE = "ctrl+t: how sure the model was of each token"


class CompletionPage(AuthoredText):
    """A text that the model continues at its end, in a gap, in another version, or from one of its tokens."""

    BINDING_GROUP_TITLE = "Text"
    BINDINGS = [
        Binding("ctrl+j,ctrl+enter,f5", "go_on", "Continue", key_display="^J", id="notebook.continue"),
        Binding("ctrl+f", "fill_gap", "Fill gap", key_display="^F", id="notebook.fill"),
        Binding("ctrl+z,super+z", "undo", "Undo", key_display="^Z", id="notebook.undo"),
        Binding(
            "ctrl+underscore", "undo_token", "Undo a token", key_display="^_", show=False, id="notebook.undo_token"
        ),
        Binding("ctrl+up", "walk(-1)", "Older alternative", show=False, id="notebook.older"),
        Binding("ctrl+down", "walk(1)", "Newer alternative", show=False, id="notebook.newer"),
    ]

    class Asked(Event):
        """The model should continue the text."""

    class HelpWanted(Event):
        """Enter was pressed as if to send something."""

    @dataclass
    class Interrupted(Event):
        """The user typed or deleted something while the model was writing."""

        act: Callable[[], object]
        """Applies the change, once the model has stopped."""

    def __init__(self) -> None:
        super().__init__(placeholder=EXAMPLE)
        keys = self._bindings.key_to_bindings
        for key in ("ctrl+z", "super+z"):  # TextArea binds them too, but the footer should begin with ours
            keys[key] = keys.pop(key)
        self.dialogue: Dialogue | None = None
        """The conversation whose shown branch is the text; None until the history is open."""
        self.count_tokens: Callable[[str], int] | None = None
        """Counts tokens, if a model is open; may be slow."""
        self.turn: Turn | None = None
        """The last turn."""
        self.gaps = False
        """Whether the model can fill gaps."""
        self.gap = False
        """Whether the last request was to fill a gap."""
        self.offering = True
        """Whether the footer was last shown with the key to fill a gap."""

    # The conversation

    @property
    def empty(self) -> bool:
        """Whether the text is empty."""
        return not self.text

    async def open(self) -> None:
        """Show an opened conversation, if it has messages."""
        if self.dialogue and (branch := self.dialogue.branch()):
            self.load([(one.role, one.text) for one in branch])

    async def show(self) -> None:
        """Show the current branch; undo restores the text before."""
        branch = self.dialogue.branch() if self.dialogue else ()
        self.change([(one.role, one.text) for one in branch], mark=self.version)

    def last(self, role: Role) -> Kept | None:
        """The last message of this role in the current text."""
        if not self.dialogue:
            return None
        if not self.growing and self.display:  # otherwise the text is incomplete
            if not self.text:
                return None
            if not self.dialogue.follow(self.text):
                self.dialogue.write(self.parts())  # the user's changes become a version
        return self.dialogue.last(role)

    @property
    def settled(self) -> bool:
        """Whether the text is complete: nothing is being written. Still true when a closing app has hidden it."""
        return not self.growing and self.styles.display != "none"

    def keep(self, draft: Callable[[], str]) -> None:
        """Save the text as messages; it needs no draft then."""
        if self.dialogue and self.settled:
            if self.text.strip() or self.dialogue.branch():
                self.dialogue.write(self.parts())
            self.dialogue.keep_draft("")

    def keep_typed(self, draft: Callable[[], str]) -> None:
        """Save the text as a draft while the user types; as messages, every pause would make a version."""
        if self.dialogue and self.settled:
            known = self.text == "".join(one.text for one in self.dialogue.branch())
            self.dialogue.keep_draft("" if known or not self.text.strip() else self.text)

    @property
    def draft(self) -> str:
        """The text as a draft; set it only for a conversation just opened."""
        return self.text

    @draft.setter
    def draft(self, text: str) -> None:
        if self.dialogue:
            self.load(self.dialogue.split_by_author(text))

    @property
    def version(self) -> str:
        """Which version of the model's last reply is shown."""
        from chatapp.tui.chat.message import version

        last = self.dialogue.last("assistant") if self.dialogue else None
        return version(last) if last else ""

    def prompt(self, engine: Engine, draft: Callable[[], str]) -> Sequence[Prompted] | str:
        """The text, which is the prompt."""
        return self.text

    @property
    def tokens_measured(self) -> int:
        """0: the text is always counted anew."""
        return 0

    def recount(self, count: Callable[[str], int] | None) -> None:
        """Count the tokens of the text."""
        self.measure()

    @work(thread=True, exclusive=True, group="count")
    def measure(self) -> None:
        """Count the tokens of the text in a thread; an outdated count is dropped."""
        worker, count = get_current_worker(), self.count_tokens  # the model may change meanwhile
        text = self.text
        tokens = count(text) if count else None
        if not worker.is_cancelled:
            self.call_later(self.tell_count, text, tokens)

    def tell_count(self, text: str, tokens: int | None) -> None:
        """Post the token count, unless the text has changed meanwhile."""
        if text == self.text:
            self.post_message(self.Counted(tokens))

    def on_text_area_changed(self) -> None:
        if not self.growing:
            self.measure()

    async def reach(self, message: int) -> None:
        """Show the branch with a message."""
        if self.dialogue and all(one.id != message for one in self.dialogue.branch()):
            self.dialogue.select(message)
            await self.show()

    # Turns: each method returns a function that begins one, given the engine

    def ask(self, n: int = 1) -> Callable[[Engine], Turn] | None:
        """Continue the text n times; None, after a notification, if there is no text yet."""
        if self.text.strip():
            return partial(self.begin, n=n)
        self.notify("Write something first, or press tab for the example.")
        return None

    def begin(self, engine: Engine, *, n: int) -> Turn:
        """Begin a continuation; if the user took back tokens of a reply, begin another version of it."""
        assert self.dialogue
        reached = self.reached()
        before, after = self.begin_writing()
        if reached and reached.cut and (reached.after, reached.reply.model) == (after, self.dialogue.setup.model):
            return self.dialogue.go_on(engine, reached.reply.id, reached.tokens, n=n, after=after)
        if self.gap:
            return self.dialogue.fill(engine, before, after)
        return self.dialogue.continue_text(engine, before, n)

    def begin_writing(self) -> tuple[Sequence[tuple[Role, str]], str]:
        """Let the model write in the gap or at the end; returns the parts before that place and the text after."""
        self.number += 1
        self.head = self.cursor_location if self.gap else self.document.end
        self.move_cursor(self.head)
        self.mark = ""
        self.growing = self.read_only = True
        self.followed_to = 0.0
        place = self.place
        return self.parts(place), self.text[place:]

    def again(self, said: Kept | None = None, n: int = 1) -> Callable[[Engine], Turn] | None:
        """Another version of the model's last reply if the text ends with it, or a continuation."""
        reached = self.reached()
        self.gap = bool(reached and reached.after)
        if reached:
            self.change(reached.before, reached.after)
        return self.ask(n)

    def go_on(self, said: Kept, tokens: Sequence[Token]) -> Callable[[Engine], Turn]:
        """Another version of a reply that begins with these tokens."""
        assert self.dialogue
        self.dialogue.write(self.parts())
        number = self.dialogue.message(said.id).id
        if all(one.id != number for one in self.dialogue.branch()):  # the text has changed
            self.dialogue.select(number)
        branch = self.dialogue.branch()
        place = [one.id for one in branch].index(number)
        before = [(one.role, one.text) for one in branch[:place]]
        after = "".join(one.text for one in branch[place + 1 :]) if self.gaps else ""
        self.change([*before, ("assistant", "".join(token.text for token in tokens))], after)
        self.gap = bool(after)
        self.begin_writing()
        return partial(self.dialogue.go_on, message=number, tokens=tokens, after=after)

    def release(self) -> None:
        """The model does not write any more: the user can edit again."""
        self.growing = self.read_only = False
        self.mark = ""
        self.refresh()

    # The reply

    async def await_reply(self, turn: Turn) -> None:
        """The turn has begun; the text before it is saved as messages, so the draft is not needed."""
        self.turn = turn
        if self.dialogue:
            self.dialogue.keep_draft("")

    async def grow(self, deltas: Sequence[Delta]) -> None:
        """Add the model's text."""
        if text := printable("".join(delta.text for delta in deltas if delta.channel == "text")):
            self.add(text)

    async def finish(self, turn: Turn, mark: str, *, written: bool) -> None:
        """The model has ended; `mark` says how, if it was cut off."""
        self.release()
        if written:
            self.mark = "   ".join(filter(None, (self.version, mark)))

    async def show_end(self) -> None:
        """Nothing: tokens after the user's stop do not belong to the text."""

    @property
    def tip(self) -> str:
        """A hint at token probabilities, after the very first answer."""
        if self.dialogue and self.dialogue.conversation in (None, 1):
            return SURE if sum(one.role == "assistant" for one in self.dialogue.messages()) == 1 else ""
        return ""

    # The model's last reply

    def reached(self) -> Reached | None:
        """The reply that the text ends in, even if cut short, or that fills the gap."""
        return self.dialogue.find_reached(self.text, self.turn) if self.dialogue else None

    async def walk(self, step: int, said: Kept | None = None) -> None:
        """Show an older or newer version of the model's last reply."""
        if self.growing:
            return self.notify(BUSY)
        last = self.last("assistant")
        if self.dialogue and last and 0 <= (place := last.versions.index(last.id) + step) < len(last.versions):
            self.dialogue.write(self.parts())  # the user's changes become a version
            self.dialogue.select(last.versions[place])
            await self.show()

    action_walk = walk

    @on(AuthoredText.Restored)
    def show_version(self) -> None:
        """Show which version undo or redo has restored."""
        reached = self.reached()
        if reached and reached.whole and not reached.after:
            self.head, self.mark = self.document.end, self.version
            self.refresh()

    def action_undo_token(self) -> None:
        """Remove the model's last token."""
        reached = self.reached()
        if reached and reached.tokens:
            left = "".join(token.text for token in reached.shorter)
            self.change([*reached.before, ("assistant", left)], reached.after)
        elif reached:
            self.notify("The tokens of this text were not saved: ctrl+z takes back the whole continuation.")
        else:
            self.notify("The text does not end with the model's last token.")

    # Keys

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        if self.takes(event):
            return
        if self.growing and (act := self.change_of(event)):
            self.post_message(self.Interrupted(act))
            event.stop()
        elif event.key == "tab" and not self.text:
            self.insert(EXAMPLE)
            event.stop()
        elif event.key == "enter" and not self.text.strip():
            self.post_message(self.HelpWanted())
            event.stop()
        elif event.key == "enter" and self.command:
            self.enter_command()
            event.stop()
        elif event.key == "enter" and self.document.line_count == 1 and not self.coloured():
            self.post_message(self.HelpWanted())
            return  # TextArea adds the line
        elif event.key != "escape":  # TextArea would move the focus on escape
            return
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        if self.growing:
            self.post_message(self.Interrupted(partial(self.insert, event.text)))
            event.prevent_default()

    def change_of(self, event: events.Key) -> Callable[[], object] | None:
        """The change that a key makes to the text; None if it makes none."""
        if event.is_printable or event.key == "enter":
            return partial(self.insert, event.character if event.character and event.is_printable else "\n")
        bound = self._bindings.key_to_bindings.get(event.key, ())
        action = next((one.action for one in bound if one.action.startswith("delete_")), None)
        return partial(self.run_action, action) if action else None

    @property
    def command(self) -> bool:
        """Whether the text is a slash command."""
        return self.text.startswith("/") and self.document.line_count == 1 and bool(COMMAND.fullmatch(self.text))

    def enter_command(self) -> None:
        """Clear the text and run it as a command."""
        line = self.text
        self.load_text("")
        self.post_message(self.CommandEntered(line))

    def give_back(self, line: str) -> None:
        """Restore a command that failed, unless something else was typed since."""
        if not self.text:
            self.load([("user", line)])

    def action_go_on(self) -> None:
        if self.command:
            return self.enter_command()
        if not self.text.strip():
            self.load_text("")
            self.insert(EXAMPLE)
        self.gap = False
        self.post_message(self.Asked())

    def action_fill_gap(self) -> None:
        """Fill the gap at the cursor; in an empty text, that of an example."""
        if not self.text:
            before, after = GAP_EXAMPLE
            self.insert(before + after)
            self.move_cursor(self.location(len(before)))
        self.gap = True
        self.post_message(self.Asked())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "fill_gap":
            return self.gaps and not self.growing and self.has_gap
        return not (self.growing and action in ("go_on", "undo", "undo_token", "redo"))

    def on_text_area_selection_changed(self) -> None:
        if self.gaps and self.offering != self.has_gap:
            self.offering = self.has_gap
            self.refresh_bindings()

    @property
    def has_gap(self) -> bool:
        """Whether there is text after the cursor, or none at all (then the example is used)."""
        return not self.text or self.cursor_location != self.document.end
