"""`chatapp run`: which conversation it is in, and whether that is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chatapp.cli.printing import Form, note, print_answer, warn
from chatapp.conversation.talk import Talk
from chatapp.generation import GenerationError
from chatapp.history import Conversation, HistoryError, Message
from chatapp.settings import settings
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.generation import Engine
    from chatapp.history import History
    from chatapp.placement.selection import PlacementOptions


Open = Callable[[str], "Engine"]
"""Opens a model by its name."""


@dataclass(frozen=True)
class Past:
    """The conversation to go on with."""

    conversation: Conversation
    messages: Sequence[Message]
    history: "History | None" = None
    """Where it is, if not in the user's history."""

    def kept_aside(self) -> "Past":
        """A copy that is in memory only."""
        from chatapp.history import History

        history = History(None)
        return Past(history.restore(self.conversation, self.messages), self.messages, history)


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
        messages = history.messages(conversation.id)
        for line in history.new_damage():
            warn(line)
        return Past(conversation, messages)


def fitting(engine: "Engine", model: str, system: str) -> str:
    """A system prompt, where the model can keep to one."""
    if system and not engine.can_chat:
        raise GenerationError(f"{model} has no chat template: it continues text, and keeps to no system prompt")
    return system


def run(
    talk: Talk,
    open_model: Open,
    prompt: str | None,
    *,
    wish: "PlacementOptions",
    past: Past | None,
    keeping: bool,
    form: Form,
) -> int:
    """Answer one prompt, or talk line by line, where that was left; return the exit code.

    One text that a base model continues, perhaps from a pipe, is not kept: nobody comes back to that.
    """
    if past and not talk.engine.can_chat:
        raise GenerationError(f"{talk.setup.model} has no chat template: it cannot continue a conversation")
    if keeping and settings.read().history and (prompt is None or talk.engine.can_chat):
        talk.history = open_history()
    history = talk.history
    if past:
        past = past if history else past.kept_aside()
        talk.begin_anew(past.conversation, history=past.history)
    else:
        talk.begin_anew()
    try:
        if prompt is not None:
            return 130 if print_answer(talk.engine, talk.ask(prompt).deltas, talk.n, form) else 0
        return _loop(talk, open_model, wish, past, form)
    finally:
        if history:
            talk.dialogue.save()
            history.close()


def _loop(talk: Talk, open_model: Open, wish: "PlacementOptions", past: Past | None, form: Form) -> int:
    from chatapp.cli import repl
    from chatapp.commands.steering import Outside, Steering
    from chatapp.placement.measuring import measure_quietly
    from chatapp.workspace import open_store

    if past and (said := talk.dialogue.branch()):
        note(f"Going on with conversation {past.conversation.id}, {len(said)} messages so far")
    outside = Outside(open_model, open_store, talk.history, partial(measure_quietly, open_store(), options=wish))
    return repl.loop(Steering(talk, outside, say=note), repl.RUN, form)


def open_history() -> "History | None":
    """The history, where it can be opened; a conversation is possible without."""
    from chatapp.history import History

    try:
        return History(settings.history())
    except HistoryError as error:
        warn(f"this conversation is not being saved: {error}")
        return None
