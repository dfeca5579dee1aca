"""The list of conversations beside the page: those of the history, and those that are only here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chatapp.tui.chat.pane import Pane
from chatapp.tui.chat.sidebar import Sidebar
from chatapp.tui.errors import telling

if TYPE_CHECKING:
    from chatapp.tui.chat.conversations import Conversations


def show(screen: Conversations, sidebar: Sidebar) -> None:
    """Show the list as it is now."""
    with telling(screen):
        conversations, total = screen.history.page(sidebar.words, sidebar.limit) if screen.history else ((), 0)
        unkept = [pane for pane in reversed(screen.panes) if pane.begun and number(pane) < 0]
        if unkept:
            from chatapp.conversation.rescue import facts
            from chatapp.history.text import has_words

            here = [replace(facts(pane.dialogue), id=number(pane)) for pane in unkept if pane.dialogue]
            here = [one for one in here if has_words(one.title, sidebar.words)]
            conversations, total = [*here, *conversations], total + len(here)
        busy = {number(pane) for pane in screen.panes if pane.reply}
        none = "Conversations are not being saved." if screen.lack else "Conversations will be listed here."
        sidebar.show(conversations, number(screen.pane), busy, total=total, none=none)


async def toggle(screen: Conversations) -> None:
    """Show the list and go there; or hide it."""
    if screen.sidebar is None:
        screen.sidebar = Sidebar()
        await screen.middle.mount(screen.sidebar, before=screen.stage)
    elif screen.sidebar.display and screen.sidebar.has_focus:
        screen.sidebar.display = False
        screen.pane.box.focus()
        return
    screen.sidebar.display = True
    show(screen, screen.sidebar)
    screen.sidebar.focus()


def number(pane: Pane) -> int:
    """The number of a conversation in the list; below zero where it is only here."""
    kept = pane.dialogue.conversation if pane.dialogue else None
    return -id(pane) if kept is None else kept
