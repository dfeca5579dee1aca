"""A loaded model that resumes conversations from states on disk, without reading them again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter

from backends.errors import UserError
from chatapp import __version__
from chatapp.generation.engine import Engine
from chatapp.generation.states import States
from chatapp.generation.text.message import Message

LEAVING = 1.0
"""When a model is closed, no further state is written after this many seconds."""


class ResumingEngine(Engine):
    """An engine that keeps the cached states of conversations on disk."""

    def __init__(self, engine: Engine, states: States):
        """Replace an engine that has not computed anything yet."""
        vars(self).update(vars(engine))
        self.states = states
        self._recalled: dict[str, int] = {}
        """The number of tokens found on disk, by conversation."""
        self._retained: dict[str, Sequence[Message]] = {}
        """Conversations to save, the most recent last."""

    def recall(self, name: str) -> None:
        """Look for a conversation's cached state on disk."""
        if name not in self._recalled:
            self._recalled[name] = 0
            if found := self.states.read(name, self.placement, self._facts()):
                self._recalled[name] = len(found.tokens)
                self._cache.arrived.append(found)

    def retain(self, name: str, messages: Sequence[Message]) -> None:
        """Mark these messages of a conversation as worth saving when the model is closed."""
        self._retained.pop(name, None)
        self._retained[name] = messages

    def write_states(self, wanted: Callable[[str], bool]) -> None:
        """Save the cached states of the marked conversations that are `wanted`, most recent first.

        That takes about a second at most; nothing is written while somebody waits for the model.
        """
        start, facts = perf_counter(), self._facts()
        while self._retained and self.turns.idle and perf_counter() - start < LEAVING:
            name, messages = self._retained.popitem()
            # The disk may be full, or the template may refuse the last reply: then it is just read again.
            with suppress(OSError, UserError), self.turns.alone():
                found = self._cache.extract(self._prompts.of_chat(messages)) if wanted(name) else None
                if found and len(found.tokens) > self._recalled.get(name, 0):
                    self.states.write(name, found, facts)
                    self._recalled[name] = len(found.tokens)

    def _facts(self) -> dict[str, str]:
        """What a state on disk must match."""
        place = self.placement
        where = {"backend": place.backend, "device": place.device, "precision": place.precision}
        return {**self.origin, **where, "chatapp": __version__}
