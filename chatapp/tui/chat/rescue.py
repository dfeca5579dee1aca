"""What could not be saved: it is tried again, and before the screen is left written to a file that can be imported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.conversation import Dialogue
    from chatapp.history import History
    from chatapp.tui.chat.conversations import Conversations


def catch_up(history: History, dialogues: Sequence[Dialogue]) -> bool:
    """Try again to save everything; whether it is."""
    from chatapp.history import HistoryError

    behind = [dialogue for dialogue in dialogues if not dialogue.save() and dialogue.failure]
    if not behind:
        return True
    with suppress(HistoryError):
        history.reopen()
    return all([dialogue.save() for dialogue in behind])


def save_or_rescue(screen: Conversations) -> str:
    """Save all that is not saved; what the user should know, where that does not work."""
    from chatapp.conversation.rescue import rescue
    from chatapp.history import HistoryError
    from chatapp.tui.chat.conversations import PATIENCE

    kept = [pane.dialogue for pane in screen.panes if pane.dialogue and pane.kept and pane.begun]
    if screen.history:
        catch_up(screen.history, kept)
    elif screen.lack:
        with suppress(HistoryError):
            history = screen.workspace.open_history(PATIENCE)
            for dialogue in kept:
                dialogue.keep_in(history)
    else:
        return ""
    behind = [dialogue for dialogue in kept if dialogue.is_ahead]
    if not behind:
        return ""
    what = "one conversation" if len(behind) == 1 else f"{len(behind)} conversations"
    why = f"{what} could not be saved: {behind[0].failure or screen.lack}"
    try:
        file = rescue(behind, screen.workspace.home)
    except HistoryError as error:
        return f"{why}\nWriting to a file failed too, so it is lost: {error}"
    return (
        f"{why}\nAll of it is in {file}\nWhen saving works again, this brings it back: chatapp sessions import {file}"
    )
