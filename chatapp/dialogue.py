"""What is said between a user and a model, turn by turn, saved as it grows where that is wanted."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chatapp.answer import warn
from chatapp.generation import Delta, Engine, Message, Options
from chatapp.history import Conversation, HistoryError, Kind, Role
from chatapp.history import Message as Kept
from chatapp.history.recording import Recording

if TYPE_CHECKING:
    from chatapp.history import History


class Dialogue:
    """One conversation at a time; that it cannot be saved does not end it."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        *,
        model: str,
        history: "History | None" = None,
        warn: Callable[[str], None] = warn,
    ) -> None:
        self.engine, self.options, self.model = engine, options, model
        self.history, self._warn, self._warned = history, warn, False
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin another conversation; the one before stays in the history."""
        self.said: list[Message] = []
        self.conversation: int | None = None
        self._leaf: int | None = None
        self._unsaved: list[Message] = []
        """What was said last, where it could not be saved."""
        self._late: Recording | None = None
        """The last reply, where its end could not be saved."""

    def resume(self, conversation: Conversation, messages: Sequence[Kept]) -> None:
        """Go on with a conversation; a question that got no answer is left aside."""
        messages = list(messages)
        while messages and (messages[-1].role == "user" or not messages[-1].text):
            messages.pop()
        self.begin_anew()
        self.conversation = conversation.id
        self._leaf = messages[-1].id if messages else None
        self.said = [Message(message.role, message.text) for message in messages]

    def ask(self, text: str) -> Iterator[Delta]:
        """What the model says to a text; a base model continues each text anew."""
        asked = Message("user", text)
        if self.engine.can_chat or self.said:
            deltas = self.engine.chat([*self.said, asked], self.options)
        else:
            self.begin_anew()
            deltas = self.engine.complete(text, self.options)
        return self._heard(deltas, asked)

    def _heard(self, deltas: Generator[Delta, None, None], asked: Message) -> Iterator[Delta]:
        """The deltas, saved as they pass; what was said counts unless the model failed."""
        recording = self._record(asked)
        texts, reasons = [""] * self.options.n, ["cancelled"] * self.options.n
        heard = False
        try:
            with closing(deltas):
                for delta in deltas:
                    texts[delta.index] += delta.text
                    reasons[delta.index] = delta.finish_reason or reasons[delta.index]
                    if recording:
                        recording.grow(delta.index, delta.text)
                        self._tell(recording.failure)
                    yield delta
            heard = True
        except GeneratorExit:
            heard = True
            raise
        finally:
            if recording and not heard:
                recording.save()
            elif heard:
                self._keep(asked, Message("assistant", texts[0]), recording, reasons)

    def _keep(self, asked: Message, answer: Message, recording: Recording | None, reasons: Sequence[str]) -> None:
        if self.engine.can_chat:
            self.said += [asked, answer]
        if recording:
            recording.end(reasons, self.engine.last_usage.as_dict() if self.engine.last_usage else {})
            self._leaf = recording.replies[0].id
            self._late = recording if recording.failure else None
            self._tell(recording.failure)
        else:
            self._unsaved += [asked, answer]

    def _record(self, asked: Message) -> Recording | None:
        """Save what is asked and what could not be saved before, and begin to save the replies."""
        if not self.history:
            return None
        leaf, unsaved = self._leaf, [*self._unsaved, asked]
        try:
            if self._late:
                self._late.end_again()
                self._late = None
            if self.conversation is None:
                kind: Kind = "chat" if self.engine.can_chat else "completion"
                self.conversation = self.history.create(kind, model=self.model).id
            for message in unsaved:
                role: Role = "user" if message.role == "user" else "assistant"
                leaf = self.history.add(self.conversation, role, message.text, parent=leaf).id
            replies = [
                self.history.begin_reply(self.conversation, parent=leaf, model=self.model, options=facts(self.options))
                for _ in range(self.options.n)
            ]
            if len(replies) > 1:
                self.history.select(replies[0].id)
        except HistoryError as error:
            self._tell(error)
            return None
        self._unsaved = []
        return Recording(self.history, replies)

    def _tell(self, failure: HistoryError | None) -> None:
        """Warn, once."""
        if failure and not self._warned:
            self._warned = True
            self._warn(f"this conversation is not being saved: {failure}")


def facts(options: Options) -> dict[str, Any]:  # Any: JSON
    """The options that were set, as JSON can hold them."""
    chosen = {name: value for name, value in asdict(options).items() if value not in (None, (), {})}
    if "logit_bias" in chosen:
        biases = chosen["logit_bias"].items()
        chosen["logit_bias"] = {str(token): bias if math.isfinite(bias) else str(bias) for token, bias in biases}
    return chosen
