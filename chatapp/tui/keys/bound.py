"""Every action that has an id, wherever it is: what a user's own keys can be bound to."""

from __future__ import annotations

from chatapp.settings.keymap import Action
from chatapp.tui.help.help import actions


def everything() -> list[Action]:
    """The actions of all screens and widgets; this imports them, so it waits until there are keys to bind."""
    from chatapp.tui.answers.columns import Columns
    from chatapp.tui.answers.comparison import ComparisonScreen
    from chatapp.tui.answers.picker import Picker
    from chatapp.tui.app import ChatApp
    from chatapp.tui.chat.completion_page import CompletionPage
    from chatapp.tui.chat.message import Said
    from chatapp.tui.chat.screen import ChatScreen
    from chatapp.tui.chat.search import SearchScreen
    from chatapp.tui.chat.sidebar import Sidebar
    from chatapp.tui.help.help import Help
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
