"""How a conversation is answered: its sampling options, presets and system prompt, on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatapp.commands import run
from chatapp.tui.sampling.drawer import SamplingDrawer

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue, WhenFull
    from chatapp.generation import Options
    from chatapp.generation.decoding.preview import Preview
    from chatapp.tui.chat.pane import Pane
    from chatapp.tui.chat.screen import ChatScreen
    from chatapp.workspace import Opened


def ready(screen: ChatScreen) -> tuple[Opened, Dialogue] | None:
    """The model and the conversation that are shown; says so where they are not open yet."""
    opened, dialogue = screen.pane.opened, screen.pane.dialogue
    if opened and dialogue:
        return opened, dialogue
    screen.notify(screen.pane.failure or "The model is not open yet.", markup=False)
    return None


async def toggle_drawer(screen: ChatScreen) -> None:
    """Show the drawer beside the page, go there, or hide it."""
    if screen.drawer:
        if screen.drawer.has_focus:
            return await close_drawer(screen)
        screen.drawer.focus()
    elif there := ready(screen):
        opened, dialogue = there
        screen.drawer = SamplingDrawer(
            opened.engine.defaults,
            dialogue.setup.options,
            when_full=dialogue.setup.when_full,
            look=lambda options: look(screen.pane, options),
        )
        screen.add_class("-sampling")
        await screen.middle.mount(screen.drawer)
        screen.drawer.focus()


async def close_drawer(screen: ChatScreen) -> None:
    """Hide the drawer."""
    if screen.drawer:
        await screen.drawer.remove()
        screen.drawer = None
        screen.remove_class("-sampling")
        screen.pane.box.focus()


def show_setup(screen: ChatScreen) -> None:
    """Let the drawer show the conversation that is shown now."""
    opened, dialogue = screen.pane.opened, screen.pane.dialogue
    if screen.drawer and opened and dialogue:
        screen.drawer.take(opened.engine.defaults, dialogue.setup.options, dialogue.setup.when_full)


def look(pane: Pane, options: Options) -> Preview | None:
    """What the options make of the next token; called in a thread, and nothing while the model writes."""
    if not pane.opened or not pane.dialogue or pane.reply:
        return None
    if not (prompt := pane.page.prompt(lambda: pane.prompt.text)):
        return None
    found = pane.opened.engine.next_token(prompt, wanted=lambda: not pane.reply)
    return found.under(options) if found else None


def choose_options(screen: ChatScreen, options: Mapping[str, Any]) -> None:  # Any: what Options takes
    """Answer with these from now on."""
    if dialogue := screen.pane.dialogue:
        dialogue.change(replace(dialogue.setup, options=dict(options)))


def choose_when_full(screen: ChatScreen, value: WhenFull) -> None:
    """Do this when the context is full."""
    if dialogue := screen.pane.dialogue:
        dialogue.change(replace(dialogue.setup, when_full=value))


def pick_preset(screen: ChatScreen) -> None:
    """Choose options by the name they were saved under."""
    from chatapp.tui.sampling.preset_picker import PresetPicker

    def take(options: Mapping[str, Any] | None) -> None:
        if options is not None:
            choose_options(screen, options)
            show_setup(screen)

    if there := ready(screen):
        opened, dialogue = there
        path = screen.workspace.home / "presets.toml"
        picker = PresetPicker(
            path, opened.engine.defaults, dialogue.setup.options, look=lambda options: look(screen.pane, options)
        )
        screen.app.push_screen(picker, take)


def write_system_prompt(screen: ChatScreen) -> None:
    """Choose or write what all answers of this conversation are to keep to."""
    from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen

    def take(text: str | None) -> None:
        if text is not None:
            run.set_system(screen.view, text)

    if there := ready(screen):
        _, dialogue = there
        screen.app.push_screen(SystemPromptScreen(screen.workspace.home / "prompts", dialogue.setup.system), take)
