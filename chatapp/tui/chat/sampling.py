"""The sampling options, presets and system prompt of a conversation, on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatapp.tui.sampling.drawer import SamplingDrawer

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, WhenFull
    from chatapp.generation import Options
    from chatapp.generation.decoding.preview import Preview
    from chatapp.tui.chat.conversations import Conversations
    from chatapp.workspace import Opened


class Sampling:
    """The sampling of a chat screen's conversation: the drawer of options, the presets and the system prompt."""

    def __init__(self, screen: Conversations, set_system: Callable[[str], None]) -> None:
        self.screen, self.set_system = screen, set_system

    def ready(self) -> tuple[Opened, Dialogue] | None:
        """The model and the conversation that are shown; says so where they are not open yet."""
        opened, dialogue = self.screen.pane.opened, self.screen.pane.dialogue
        if opened and dialogue:
            return opened, dialogue
        self.screen.notify(self.screen.pane.failure or "The model is not open yet.", markup=False)
        return None

    async def toggle_drawer(self) -> None:
        """Show the drawer beside the page, go there, or hide it."""
        if self.screen.drawer:
            if self.screen.drawer.has_focus:
                return await self.close_drawer()
            self.screen.drawer.focus()
        elif there := self.ready():
            opened, dialogue = there
            self.screen.drawer = SamplingDrawer(
                opened.engine.defaults,
                dialogue.setup.options,
                when_full=dialogue.setup.when_full,
                look=self.look,
            )
            self.screen.add_class("-sampling")
            await self.screen.middle.mount(self.screen.drawer)
            self.screen.drawer.focus()

    async def close_drawer(self) -> None:
        """Hide the drawer."""
        if self.screen.drawer:
            await self.screen.drawer.remove()
            self.screen.drawer = None
            self.screen.remove_class("-sampling")
            self.screen.pane.box.focus()

    def show_setup(self) -> None:
        """Let the drawer show the conversation that is shown now."""
        opened, dialogue = self.screen.pane.opened, self.screen.pane.dialogue
        if self.screen.drawer and opened and dialogue:
            self.screen.drawer.take(opened.engine.defaults, dialogue.setup.options, dialogue.setup.when_full)

    def look(self, options: Options) -> Preview | None:
        """What the options make of the next token; called in a thread, and nothing while the model writes."""
        pane = self.screen.pane
        if not pane.opened or not pane.dialogue or pane.reply:
            return None
        if not (prompt := pane.page.prompt(lambda: pane.prompt.text)):
            return None
        found = pane.opened.engine.next_token(prompt, wanted=lambda: not pane.reply)
        return found.under(options) if found else None

    def choose_options(self, options: Mapping[str, Any]) -> None:  # Any: what Options takes
        """Answer with these from now on."""
        if dialogue := self.screen.pane.dialogue:
            dialogue.change(replace(dialogue.setup, options=dict(options)))

    def choose_when_full(self, value: WhenFull) -> None:
        """Do this when the context is full."""
        if dialogue := self.screen.pane.dialogue:
            dialogue.change(replace(dialogue.setup, when_full=value))

    def pick_preset(self) -> None:
        """Choose options by the name they were saved under."""
        from chatapp.tui.sampling.preset_picker import PresetPicker

        def take(options: Mapping[str, Any] | None) -> None:
            if options is not None:
                self.choose_options(options)
                self.show_setup()

        if there := self.ready():
            opened, dialogue = there
            path = self.screen.workspace.home / "presets.toml"
            picker = PresetPicker(path, opened.engine.defaults, dialogue.setup.options, look=self.look)
            self.screen.app.push_screen(picker, take)

    def write_system_prompt(self) -> None:
        """Choose or write what all answers of this conversation are to keep to."""
        from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen

        def take(text: str | None) -> None:
            if text is not None:
                self.set_system(text)

        if there := self.ready():
            _, dialogue = there
            folder = self.screen.workspace.home / "prompts"
            self.screen.app.push_screen(SystemPromptScreen(folder, dialogue.setup.system), take)
