"""Screen: the conversation's system prompt, and the library of saved ones."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from chatapp.commands.run import use_system
from chatapp.settings import system_prompts
from chatapp.settings.system_prompts import Entry, SystemPromptError
from chatapp.tui.opening import Front, Opening
from chatapp.tui.sampling.library import Library, draw_name

KEYS = (
    "[@click=screen.use]^J[/] use  [@click=screen.keep]^S[/] save as  [@click=screen.delete]d[/] delete  "
    "[@click=screen.focus_next]tab[/] names, text  [@click=app.simulate_key('escape')]esc[/] cancel"
)
NOTHING = "Without a system prompt the model answers as it was trained to."


class SystemPromptScreen(Library[str | None]):
    """Names on the left, the text on the right; dismisses with the text to use (empty: none), or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j", "use", "Use", key_display="^J", id="system.use"),
        Binding("ctrl+s", "keep", "Save as", key_display="^S", id="system.save"),
        Binding("d,delete", "delete", "Delete", key_display="d", id="system.delete"),
        Binding("escape", "dismiss(None)", "Cancel", key_display="esc", id="system.leave"),
    ]

    def __init__(self, folder: Path, current: str = "") -> None:
        """`folder` holds the user's prompts; `current` is the conversation's system prompt."""
        super().__init__()
        self.folder, self.current = folder, current
        self.entries: list[Entry] = []

    @classmethod
    def over(cls, front: Front) -> Opening:
        """Edit the system prompt of the current conversation."""

        def take(text: str | None) -> None:
            if text is not None:
                use_system(front, text)

        return cls(front.workspace.home / "prompts", front.dialogue.setup.system), take

    def compose(self) -> ComposeResult:
        text = TextArea(self.current, tab_behavior="focus", placeholder=NOTHING, highlight_cursor_line=False)
        yield from self.compose_around("System prompt", text, KEYS)

    def on_mount(self) -> None:
        self.query_one(TextArea).cursor_blink = False
        self.fill(self.name_of(self.current))
        self.query_one(OptionList).focus()

    # The library

    def name_of(self, text: str) -> str:
        """The name of this text in the library; empty if it is not there."""
        return next((entry.name for entry in self.known() if self.read(entry.name) == text.strip()), "")

    def known(self) -> list[Entry]:
        try:
            return system_prompts.entries(self.folder)
        except SystemPromptError as error:
            self.refuse(str(error))
            return [Entry(name, True) for name in system_prompts.BUILT_IN]

    def read(self, name: str) -> str | None:
        """The prompt of this name; None, after showing the error, if it cannot be read."""
        try:
            return system_prompts.read(self.folder, name) if name else ""
        except SystemPromptError as error:
            self.refuse(str(error))
            return None

    def fill(self, name: str) -> None:
        """List the names and highlight one; "none" if there is no text."""
        self.entries = [Entry("", True), *self.known()]
        names = self.query_one(OptionList)
        with self.prevent(OptionList.OptionHighlighted):
            names.clear_options()
            names.add_option(Option(Content.styled(" none", "$muted")))
            names.add_options(Option(draw_name(entry.name, entry.built_in, 20)) for entry in self.entries[1:])
            places = [place for place, entry in enumerate(self.entries) if entry.name == name]
            names.highlighted = places[0] if name or not self.text.strip() else None

    @property
    def text(self) -> str:
        return self.query_one(TextArea).text

    @property
    def highlighted(self) -> str:
        place = self.query_one(OptionList).highlighted
        return "" if place is None else self.entries[place].name

    @on(OptionList.OptionHighlighted)
    def show_text(self) -> None:
        """Show the highlighted prompt; ctrl+z restores the text before."""
        self.warned = ""
        self.refuse("")
        text = self.read(self.highlighted)
        if text is not None and text != self.text:
            area = self.query_one(TextArea)
            area.replace(text, (0, 0), area.document.end, maintain_selection_offset=False)
            area.move_cursor((0, 0))

    # Actions

    @on(OptionList.OptionSelected)
    def action_use(self) -> None:
        self.dismiss(self.text.strip())

    def action_keep(self) -> None:
        """Save the text under a name."""
        self.refuse("")
        self.ask_name("Name for this prompt", self.highlighted, self.save)

    def save(self, name: str) -> str:
        """Save the text under a name; returns an error message, or an empty string."""
        known = any(one.name == name and (one.built_in or name != self.highlighted) for one in self.entries[1:])
        if known and not self.was_warned(name):
            return f"the prompt {name!r} exists: press enter again to replace it"
        self.warned = ""
        return self.act(lambda: system_prompts.save(self.folder, name, self.text), name)

    def action_delete(self) -> None:
        if name := self.highlighted:
            entry = next(entry for entry in self.entries if entry.name == name)
            self.delete(name, entry.built_in, lambda: system_prompts.delete(self.folder, name))

    def on_key(self, event: events.Key) -> None:
        if self.warned and event.key not in ("d", "delete", "enter"):
            self.warned = ""
            self.refuse("")
