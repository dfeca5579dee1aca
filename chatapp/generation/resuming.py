"""A loaded model that need not read conversations again which it has read before it was closed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter

from backends.errors import UserError
from chatapp import __version__
from chatapp.generation.engine import Engine
from chatapp.generation.states import States
from chatapp.generation.text.message import Message

LEAVING = 1.0
"""Seconds after which no other state is written when a model is let go."""


class ResumingEngine(Engine):
    """An engine that keeps on the disk what its cache holds of conversations."""

    def __init__(self, engine: Engine, states: States):
        """Take the place of an engine that has computed nothing yet."""
        vars(self).update(vars(engine))
        self.states = states
        self._recalled: dict[str, int] = {}
        """Conversations that were looked for there, and how many tokens the disk has of them."""
        self._retained: dict[str, Sequence[Message]] = {}
        """Conversations to be written there, the last one last."""

    def recall(self, name: str) -> None:
        """Look whether the disk has what the cache once held of a conversation, which saves reading it."""
        if name not in self._recalled:
            self._recalled[name] = 0
            if found := self.states.read(name, self.placement, self._facts()):
                self._recalled[name] = len(found.tokens)
                self._cache.arrived.append(found)

    def retain(self, name: str, messages: Sequence[Message]) -> None:
        """What the cache holds of these messages is worth a place on the disk when the model is let go."""
        self._retained.pop(name, None)
        self._retained[name] = messages

    def write_states(self, wanted: Callable[[str], bool]) -> None:
        """Write what the caches hold of the conversations that are `wanted` to the disk, the last one first.

        That takes a second or so at most; while somebody waits for the model, nothing is written.
        """
        start, facts = perf_counter(), self._facts()
        while self._retained and self.turns.idle and perf_counter() - start < LEAVING:
            name, messages = self._retained.popitem()
            # A disk that is full, or a template that refuses a reply at the end: then it is read again, and no more.
            with suppress(OSError, UserError), self.turns.alone():
                found = self._cache.extract(self._prompts.of_chat(messages)) if wanted(name) else None
                if found and len(found.tokens) > self._recalled.get(name, 0):
                    self.states.write(name, found, facts)
                    self._recalled[name] = len(found.tokens)

    def _facts(self) -> dict[str, str]:
        """What a state on the disk has to be of."""
        place = self.placement
        where = {"backend": place.backend, "device": place.device, "precision": place.precision}
        return {**self.origin, **where, "chatapp": __version__}
