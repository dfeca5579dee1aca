"""Saves conversations that could not be saved: again, or to a file that can be imported later."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from chatapp.conversation.conversation import Dialogue
from chatapp.history import Conversation, History, HistoryError, Message, exports
from chatapp.history.text import first_words
from chatapp.text.errors import InputError
from chatapp.text.files import write_whole


def catch_up(history: History, dialogues: Sequence[Dialogue]) -> bool:
    """Try again to save everything; returns whether that worked."""
    behind = [dialogue for dialogue in dialogues if not dialogue.save() and dialogue.failure]
    if not behind:
        return True
    with suppress(HistoryError):
        history.reopen()
    return all([dialogue.save() for dialogue in behind])


def tell_rescue(behind: Sequence[Dialogue], folder: Path, lack: str) -> str:
    """Write unsaved conversations to a file and return a message for the user; `lack` says why there is no history."""
    what = "one conversation" if len(behind) == 1 else f"{len(behind)} conversations"
    why = f"{what} could not be saved: {behind[0].failure or lack}"
    try:
        file = rescue(behind, folder)
    except InputError as error:
        return f"{why}\nSaving it to a file failed too, so it is lost: {error}"
    return f"{why}\nAll of it is in {file}\nWhen saving works again, run: chatapp sessions import {file}"


def rescue(dialogues: Sequence[Dialogue], folder: Path) -> Path:
    """Write them to a private file in this folder, or else in a temporary one; InputError if neither works."""
    text = exports.as_json(map(gather, dialogues))
    name = f"unsaved-{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    try:
        write_whole(file := folder / name, text, mode=0o600)
    except OSError:
        try:
            write_whole(file := Path(tempfile.mkdtemp(prefix="chatapp-")) / name, text, mode=0o600)
        except OSError as error:
            raise InputError(f"cannot write {name} in {folder} or {tempfile.gettempdir()}: {error.strerror}") from error
    return file


def gather(dialogue: Dialogue) -> tuple[Conversation, Sequence[Message]]:
    """A conversation and its messages; an unsent draft becomes the last message, since exports have no drafts."""
    messages, branch, unsent = dialogue.messages(), dialogue.branch(), list[Message]()
    if draft := dialogue.unsaved_draft:
        number, parent = 1 + max((one.id for one in messages), default=0), branch[-1].id if branch else None
        unsent = [Message(number, 0, parent, "user", draft, time.time())]
    return describe(dialogue, unsent), [*messages, *unsent]


def describe(dialogue: Dialogue, unsent: Sequence[Message] = ()) -> Conversation:
    """The conversation's row as the history would have it, including unsent messages."""
    messages = [*dialogue.messages(), *unsent]
    return Conversation(
        0,
        first_words(next((one.text for one in messages if one.role == "user" and one.text.strip()), "")),
        dialogue.kind,
        dialogue.setup.model,
        min(one.created for one in messages),
        max(one.created for one in messages),
        len(messages),
        (unsent or dialogue.branch())[-1].id,
        setup=dialogue.setup.as_json(),
    )
