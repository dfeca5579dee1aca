"""Conversations that could not be saved, written to a file that can be imported when the disk works again."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chatapp.conversation.conversation import Dialogue
from chatapp.history import Conversation, HistoryError, exports
from chatapp.history.text import first_words
from chatapp.text.files import write_whole


def rescue(dialogues: Sequence[Dialogue], folder: Path) -> Path:
    """Write them to a file in a folder, or where temporary files are; gives the file, or raises HistoryError."""
    text = exports.as_json((facts(one), one.messages()) for one in dialogues)
    name = f"unsaved-{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    try:
        return written(folder / name, text)
    except HistoryError:
        return written(Path(tempfile.gettempdir()) / name, text)


def written(path: Path, text: str) -> Path:
    """The file with a text."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise HistoryError(f"cannot write {path}: {error.strerror}; choose another place") from error
    return path


def facts(dialogue: Dialogue) -> Conversation:
    """What a history would know of a conversation."""
    messages, branch = dialogue.messages(), dialogue.branch()
    return Conversation(
        0,
        first_words(next((one.text for one in messages if one.role == "user" and one.text.strip()), "")),
        dialogue.kind,
        dialogue.setup.model,
        min(one.created for one in messages),
        max(one.created for one in messages),
        len(messages),
        branch[-1].id,
        setup=dialogue.setup.as_json(),
    )
