"""`chatapp run`: which conversation it is in, and whether that is kept."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatapp import settings
from chatapp.answer import Form, note, print_answer
from chatapp.dialogue import Dialogue
from chatapp.errors import InputError
from chatapp.generation import Engine, GenerationError, Options
from chatapp.history import Conversation, HistoryError

if TYPE_CHECKING:
    from chatapp.history import History


@dataclass(frozen=True)
class Past:
    """The conversation to go on with."""

    history: "History"
    conversation: Conversation


def past(session: int | None, *, last: bool) -> Past | None:
    """The conversation with this number, or the last one where that is asked for."""
    if session is None and not last:
        return None
    from chatapp.history import History

    history = History(settings.history())
    conversation = history.get(session) if session is not None else history.last("chat")
    if conversation is None:
        raise InputError("there is no conversation to go on with yet; chatapp run MODEL begins one")
    if conversation.kind == "completion":
        raise InputError(
            f"{conversation.id} is a text that a base model continued, no conversation; "
            f"chatapp sessions show {conversation.id} prints it"
        )
    return Past(history, conversation)


def dialogue(engine: Engine, options: Options, *, model: str, past: Past | None, keeping: bool) -> Dialogue:
    """The conversation to go on with, or a new one; kept in the history unless the user does not want that."""
    keeping = keeping and settings.read().history
    history = past.history if past else _history() if keeping else None
    begun = Dialogue(engine, options, model=model, history=history if keeping else None, warn=_warn)
    if past:
        if not engine.can_chat:
            raise GenerationError(f"{model} has no chat template: it cannot go on with a conversation; name another")
        begun.resume(past.conversation, past.history.messages(past.conversation.id))
    return begun


def answer(dialogue: Dialogue, prompt: str | None, form: Form) -> int:
    """Answer one prompt, or talk line by line, and return the exit code."""
    if prompt is None:
        from chatapp.prompt_loop import talk

        if dialogue.said:
            note(f"Going on with conversation {dialogue.conversation}, {len(dialogue.said)} messages so far")
        return talk(dialogue, form)
    if not dialogue.engine.can_chat:
        dialogue.history = None  # one text, perhaps from a pipe, and what continues it: nobody comes back to that
    deltas = dialogue.ask(prompt)
    return 130 if print_answer(dialogue.engine, deltas, dialogue.options.n, form).interrupted else 0


def _history() -> "History | None":
    """The history, where it can be opened; a conversation is possible without."""
    from chatapp.history import History

    try:
        return History(settings.history())
    except HistoryError as error:
        _warn(f"this conversation is not being saved: {error}")
        return None


def _warn(text: str) -> None:
    note(f"Warning: {text}")
