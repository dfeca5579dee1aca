"""Widget: the prompt, where messages are typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets.text_area import Location

from chatapp.commands.parse import is_command
from chatapp.conversation import attachments, shell
from chatapp.conversation.attachments import Attachment, Scan
from chatapp.text.errors import InputError
from chatapp.text.printable import clean_paste, printable
from chatapp.tui.errors import telling
from chatapp.tui.prompt import completion
from chatapp.tui.prompt.box import Box
from chatapp.tui.prompt.completion import Commands
from chatapp.tui.prompt.popup import Popup
from chatapp.tui.prompt.recall import Recall

if TYPE_CHECKING:
    from chatapp.history import Message as Kept

PAUSE = 0.15
"""Seconds after the last key until tokens are counted."""


class Prompt(Box):
    """The prompt: enter sends, ctrl+j adds a line, `/` and `@` open completions."""

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="prompt.submit"),
        Binding("ctrl+up", "recall(1)", "Earlier prompt", show=False, id="prompt.earlier"),
        Binding("ctrl+down", "recall(-1)", "Later prompt", show=False, id="prompt.later"),
        Binding("ctrl+g", "write_outside", "Editor", key_display="^G", show=False, id="prompt.editor"),
    ]

    @dataclass
    class Submitted(Message):
        """A message was sent; the prompt is empty again."""

        text: str
        """The whole message: pastes unfolded, attachments included."""
        draft: str = ""
        """As typed, for `give_back`."""
        n: int = 1
        """The number of answers wanted."""
        edited: Kept | None = None
        """The message that it replaces; set by the conversation's pane."""

    @dataclass
    class ShellEntered(Message):
        """A shell command was entered; the prompt is empty again."""

        prompt: Prompt
        command: str
        draft: str

    def __init__(
        self,
        *,
        past: Callable[[], Sequence[str]] | None = None,
        commands: Commands = (),
        count_tokens: Callable[[str], int] | None = None,
        root: Path | None = None,
    ) -> None:
        self.past, self.commands, self.count_tokens = past, commands, count_tokens
        """Loads earlier prompts; slash commands; counts tokens once a model is open. Both functions run in threads."""
        self.root = root or Path()
        self.recall, self.popup = Recall(), Popup(self, self.take)
        self.scan: Scan | None = None
        """The files that can be attached, once an `@` was typed."""
        self.weights: dict[str, int] = {}
        """Tokens of highlighted files."""
        self.typed = ""
        """The text that a choice would replace."""
        self.dismissed = False
        """Whether the user closed the popup."""
        self.looked: tuple[str, Location] = "", (0, 0)
        """Text and cursor for which completions were last computed."""
        self.reading, self.turn, self.counting = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self.sending: list[str] = []
        """Drafts whose attachments are being read."""
        self.timer: Timer | None = None
        super().__init__("Ask the model on this machine")

    # Sending

    def action_submit(self) -> None:
        if self.is_open:
            self.action_newline()
        elif self.text.strip():
            self.send()

    def send(self, n: int = 1) -> None:
        """Send the text, for n answers."""
        text, draft = self.text.strip(), self.draft
        self.put("")
        self.recall.add(draft)
        if is_command(text):
            self.post_message(self.CommandEntered(self.pastes.unfold(text)))
        elif command := shell.command_in(self.pastes.unfold(text)):
            self.post_message(self.ShellEntered(self, command, draft))
        elif self.sending or "@" in text:
            self.sending.append(draft)
            self.deliver(text, draft, dict(self.known), n)
        else:
            self.post_message(self.Submitted(self.message(text), draft, n))

    @work(group="deliver")
    async def deliver(self, text: str, draft: str, known: dict[str, Attachment], n: int) -> None:
        """Read the attachments in a thread and post the message; messages keep their order."""
        try:
            async with self.turn:
                found = await asyncio.to_thread(attachments.attach, text, self.root, known)
        except InputError as error:
            self.give_back(draft)
            self.warn(printable(str(error)))
        else:
            for now in found:
                if now.path in known and known[now.path].stamp != now.stamp:
                    self.warn(f"{now.path} has changed since you attached it; the current version is sent")
            self.post_message(self.Submitted(attachments.message(self.message(text), found), draft, n))
        finally:
            self.sending.remove(draft)

    def warn(self, reason: str) -> None:
        """Show a warning about a draft."""
        self.notify(reason, severity="warning", timeout=10, markup=False)

    def take_output(self, output: shell.Output) -> None:
        """Insert a command's output as a mark that can be expanded."""
        name = " ".join(output.command.translate({91: None, 93: None}).split())[:40]
        lines = output.text.count("\n") + bool(output.text)
        mark = self.pastes.keep(f"output of {name}: {lines:,} line{'s' * (lines != 1)}", f"{output.attachment}\n")
        self.insert(f"{mark}\n")
        self.focus()

    def action_write_outside(self) -> None:
        """Edit the draft in an external editor."""
        from chatapp.text import editor

        try:
            with self.app.suspend(), telling(self):  # suspend() does not restore the terminal after an exception
                self.draft = editor.edit(self.draft)
        except SuspendNotSupported:
            self.notify("An external editor cannot be opened here.", severity="warning")

    # Earlier prompts

    def action_recall(self, back: int) -> None:
        """Go through earlier prompts."""
        if self.past:
            self.load_past(back)
        elif (text := self.recall.step(self.text, back)) is not None:
            self.put(self.pastes.fold(clean_paste(text)))
            if back > 0:
                self.move_cursor((0, len(self.document[0])))  # so that the next cursor-up goes further back

    @work(group="past")
    async def load_past(self, back: int = 0) -> None:
        """Load earlier prompts once, then take the step that needed them."""
        async with self.reading:
            if self.past:
                self.recall.load(await asyncio.to_thread(self.past))
                self.past = None
        if back:
            self.action_recall(back)
        else:
            self.suggest()

    def action_cursor_up(self, select: bool = False) -> None:
        if self.popup.choices and not select:
            self.highlight(-1)
        elif not select and self.row == 0:
            self.action_recall(1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.popup.choices and not select:
            self.highlight(1)
        elif not select and self.row == self.wrapped_document.height - 1:
            self.action_recall(-1)
        else:
            super().action_cursor_down(select)

    def action_cursor_page_up(self) -> None:
        self.page(-1)

    def action_cursor_page_down(self) -> None:
        self.page(1)

    def page(self, pages: int) -> None:
        """Scroll the draft if it is higher than the box, otherwise the conversation."""
        if self.virtual_size.height <= self.size.height:
            self.call_next(self.run_action, f"screen.page({pages})")
        elif pages < 0:
            super().action_cursor_page_up()
        else:
            super().action_cursor_page_down()

    @property
    def row(self) -> int:
        """The wrapped row of the cursor."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    # Completions

    def update_suggestion(self) -> None:
        self.dismissed = self.dismissed and bool(self.typed)
        self.update_help()
        if self.timer:
            self.timer.stop()
        if self.is_attached:  # count tokens when the user pauses
            self.timer = self.set_timer(PAUSE, self.measure)

    def update_help(self) -> None:
        """Update suggestion and completions."""
        self.looked = self.text, self.cursor_location
        self.suggest()
        self.offer()

    def suggest(self) -> None:
        """Suggest in grey how an earlier prompt continued."""
        if self.past and self.text and not self.reading.locked():
            self.load_past()
        at_end = self.cursor_location == self.document.end
        self.suggestion = self.recall.suggest(self.text) if at_end else ""

    def offer(self) -> None:
        """Show completions for the text at the cursor."""
        row, column = self.cursor_location
        line = self.document[row][:column]
        if is_command(self.text) and self.cursor_location == self.document.end:
            self.typed, choices = self.text, completion.offer_commands(self.text, self.commands)
        elif found := completion.find_path(line):
            if not self.typed:
                self.look_around()
            self.typed = line[found[0] :]
            known = self.scan.candidates if self.scan and not attachments.is_whole(found[1], self.root) else ()
            choices = completion.offer_paths(found[1], known)
        else:
            self.typed, choices = "", []
        shown = choices if self.has_focus and not self.dismissed else []
        self.popup.offer(shown)
        if shown:
            self.suggestion = ""
            self.count_highlighted()

    @work(exclusive=True, group="scan")
    async def look_around(self) -> None:
        """Scan for files to attach; the last scan is used meanwhile."""
        self.scan = await asyncio.to_thread(attachments.scan, self.root)
        self.weights.clear()
        chosen = self.popup.current if self.popup.went else None
        self.offer()
        if chosen in self.popup.choices:
            self.highlight(self.popup.choices.index(chosen))

    def highlight(self, rows: int) -> None:
        self.popup.move(rows)
        self.count_highlighted()

    def take(self, row: int | None = None, after: str = " ") -> None:
        """Insert the highlighted choice, or that of a row."""
        choice = self.popup.choices[self.popup.chosen if row is None else row]
        line, column = self.cursor_location
        start = (line, column - len(self.typed))
        is_path = choice.text.startswith("@")
        self.replace(
            choice.text + (after if is_path else ""), start, self.cursor_location, maintain_selection_offset=False
        )
        self.focus()

    @work(exclusive=True, group="count")
    async def count_highlighted(self) -> None:
        """Show how many tokens the highlighted file would add."""
        choice, count = self.popup.current, self.count_tokens
        if not choice or not count or not choice.text.startswith("@") or choice.name.endswith("/"):
            return
        if choice.name not in self.weights:
            await asyncio.sleep(PAUSE)
            try:
                found = await asyncio.to_thread(attachments.read, choice.name, self.root)
            except InputError as error:
                return self.popup.show_detail(printable(str(error)))
            self.weights[choice.name] = await asyncio.to_thread(count, found.text)
        self.popup.show_detail(f"~{self.weights[choice.name]:,} tokens")

    @work(group="measure")
    async def measure(self) -> None:
        """Count the tokens of the draft with its attachments, and show what cannot be attached."""
        text, count, problem, tokens = self.text, self.count_tokens, "", None
        found: tuple[Attachment, ...] = ()
        async with self.counting:  # one at a time: threads cannot be cancelled, and sending needs one as well
            if text != self.text:
                return
            try:
                found = await asyncio.to_thread(attachments.attach, text, self.root) if "@" in text else ()
            except InputError as error:
                problem = printable(str(error))
            if count:
                tokens = await asyncio.to_thread(count, attachments.message(self.message(text), found))
        if text != self.text:
            return
        new = {now.path: self.known.get(now.path, now) for now in found}
        if new != self.known:
            self.known = new
            self.notify_style_update()
            self.refresh()
        self.popup.show_note(printable(attachments.summary(found, tokens)), problem)
        self.post_message(self.Counted(tokens))

    # Keys and focus

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        # Not a priority binding for enter: that would overtake the characters typed just before.
        choice = self.popup.current
        if choice and event.key == "escape":
            self.dismissed = True
            self.popup.offer(())
        elif self.takes(event):
            return
        elif choice and event.key == "tab":
            self.take(after="" if choice.name.endswith("/") else " ")
        elif choice and event.key == "enter" and self.popup.is_meant and choice.text.strip() != self.typed.strip():
            self.take()
        elif event.key == "enter" and "enter" in self.app._keymap.get("prompt.submit", "enter").split(","):
            self.action_submit()
        else:
            return
        event.stop()
        event.prevent_default()

    def on_mount(self) -> None:
        self.screen.mount(self.popup, before=self)  # in its place: it covers what is above the prompt
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self.popup.stretch(), immediate=True)

    def on_unmount(self) -> None:
        if self.popup.is_attached:
            self.popup.remove()

    def on_focus(self) -> None:
        self.popup.stretch()

    def on_blur(self) -> None:
        self.popup.offer(())

    def on_text_area_selection_changed(self) -> None:
        if self.looked != (self.text, self.cursor_location):  # otherwise the change of the text was handled
            self.update_help()
