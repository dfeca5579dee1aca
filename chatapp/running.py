"""`chatapp run`: which conversation it is in, and whether that is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatapp import settings
from chatapp.answer import Form, note, print_answer, warn
from chatapp.dialogue import Dialogue
from chatapp.errors import InputError
from chatapp.generation import GenerationError
from chatapp.history import Conversation, HistoryError, Message

if TYPE_CHECKING:
    from chatapp.history import History


@dataclass(frozen=True)
class Past:
    """The conversation to go on with."""

    conversation: Conversation
    messages: Sequence[Message]


def past(session: int | None, *, last: bool) -> Past | None:
    """The conversation with this number, or the last one where that is asked for."""
    if session is None and not last:
        return None
    from chatapp.history import History

    with History(settings.history()) as history:
        conversation = history.get(session) if session is not None else history.last("chat")
        if conversation is None:
            raise InputError("there is no conversation to go on with yet; chatapp run MODEL begins one")
        if conversation.kind == "completion":
            raise InputError(
                f"{conversation.id} is a text that a base model continued, no conversation; "
                f"chatapp sessions show {conversation.id} prints it"
            )
        return Past(conversation, history.messages(conversation.id))


def run(dialogue: Dialogue, prompt: str | None, *, past: Past | None, keeping: bool, form: Form) -> int:
    """Answer one prompt, or talk line by line, where that was left; return the exit code.

    One text that a base model continues, perhaps from a pipe, is not kept: nobody comes back to that.
    """
    if past and not dialogue.engine.can_chat:
        raise GenerationError(f"{dialogue.model} has no chat template: it cannot go on with a conversation")
    if keeping and settings.read().history and (prompt is None or dialogue.engine.can_chat):
        dialogue.history = _history()
    if past:
        dialogue.resume(past.conversation, past.messages)
    try:
        return _answer(dialogue, prompt, form)
    finally:
        if dialogue.history:
            dialogue.history.close()


def _answer(dialogue: Dialogue, prompt: str | None, form: Form) -> int:
    if prompt is not None:
        deltas = dialogue.ask(prompt)
        return 130 if print_answer(dialogue.engine, deltas, dialogue.options.n, form).interrupted else 0
    from chatapp.prompt_loop import talk

    if dialogue.said:
        note(f"Going on with conversation {dialogue.conversation}, {len(dialogue.said)} messages so far")
    return talk(dialogue, form)


def _history() -> "History | None":
    """The history, where it can be opened; a conversation is possible without."""
    from chatapp.history import History

    try:
        return History(settings.history())
    except HistoryError as error:
        warn(f"this conversation is not being saved: {error}")
        return None
