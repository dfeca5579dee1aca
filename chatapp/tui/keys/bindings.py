"""The keys of the table of commands, as Textual binds them, and all that a user's own keys can be bound to."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from chatapp.commands.actions import ACTIONS
from chatapp.commands.commands import Action
from chatapp.settings.keymap import Action as Bindable

FIRST = (
    *("chat.stop", "chat.again", "chat.continue", "chat.new", "chat.sidebar", "chat.models", "chat.sampling"),
    *("chat.heat", "chat.latencies", "chat.search", "chat.jump", "app.quit", "app.help"),
)
"""The keys that the last line of the screen and the help show first, in this order."""


def bindings(owner: str) -> list[BindingType]:
    """The keys that work wherever one is: in the `app`, or in the `screen` with the conversations."""
    own = [one for one in ACTIONS if one.id and not one.within and one.action.startswith(f"{owner}.")]
    own.sort(key=lambda one: FIRST.index(one.id) if one.id in FIRST else len(FIRST))
    return [bind(one) for one in own]


def bind(action: Action) -> Binding:
    """The key of a command."""
    _, _, name = action.action.partition(".")
    description, shown = action.foot or action.title, bool(action.foot)
    return Binding(action.key, name, description, show=shown, priority=action.always, id=action.id)


def list_bindable() -> list[Bindable]:
    """List the actions with an id of all screens and widgets, which it imports: a user's own keys are bound to them."""
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.answers.comparison import ComparisonScreen
    from chatapp.tui.answers.picker import Picker
    from chatapp.tui.app import ChatApp
    from chatapp.tui.chat.completion_page import CompletionPage
    from chatapp.tui.chat.message import Said
    from chatapp.tui.chat.screen import ChatScreen
    from chatapp.tui.chat.search import SearchScreen
    from chatapp.tui.chat.sidebar import Sidebar
    from chatapp.tui.help.help import Help, actions
    from chatapp.tui.help.theme_picker import ThemePicker
    from chatapp.tui.insight.heat import HeatScreen, HeatView
    from chatapp.tui.insight.latencies import LatencyScreen
    from chatapp.tui.insight.table import TokenTable
    from chatapp.tui.insight.text import HeatText
    from chatapp.tui.models.screen import ModelsScreen
    from chatapp.tui.prompt import Prompt
    from chatapp.tui.sampling.drawer import SamplingDrawer
    from chatapp.tui.sampling.lines_screen import LinesScreen
    from chatapp.tui.sampling.preset_picker import PresetPicker
    from chatapp.tui.sampling.system_prompt_screen import SystemPromptScreen
    from chatapp.tui.widgets.ask_line import AskLine
    from chatapp.tui.widgets.count_screen import CountScreen
    from chatapp.tui.widgets.note_screen import NoteScreen

    return actions(
        *(ChatApp, ChatScreen, Sidebar, Said, Prompt, CompletionPage, Columns, ComparisonScreen, HeatView, HeatText),
        *(LatencyScreen, SamplingDrawer, LinesScreen, PresetPicker, SystemPromptScreen, ModelsScreen, SearchScreen),
        *(AskLine, CountScreen, NoteScreen, Picker, TokenTable, HeatScreen, Help, ThemePicker),
    )
