"""Reuse what a session's cache holds, and held of earlier texts, so that only new tokens of a prompt are read."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from backends import KeyValues, Placement, Session
from chatapp.generation.contract import Wanted
from chatapp.generation.decoding.generate import count_shared, split_prompt
from chatapp.generation.memory import available_memory

BUDGET = 2 << 30
"""Most bytes for texts kept outside the session's cache."""
MOST = 100
"""Most texts kept: each prompt is compared with all of them."""
SHARE = 8
"""They take at most 1/SHARE of the free memory."""
WORTH = 64
"""Up to this many tokens, reading again is cheaper than keeping and restoring."""
CHEAPER = 8
"""How many tokens can be copied in the time of reading one."""


@dataclass(frozen=True)
class Prefix:
    """A text that a session has read, and its exported cache."""

    tokens: list[int]
    found: KeyValues
    placement: Placement

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(values.nbytes for values in self.found.values())


class PromptCache:
    """A session, the tokens in its cache, and earlier texts that can be restored."""

    def __init__(self, session: Session):
        self.session = session
        self.prefixes: list[Prefix] = []
        """Least recently used first."""
        self.arrived: deque[Prefix] = deque()
        """Prefixes added by other threads."""
        self._tokens: list[int] = []
        self._lasting = False
        """Whether the cache's contents should be kept when another text is read."""

    def reuse(self, prompt: list[int], *, reproducible: bool = False, aside: Prefix | None = None) -> list[int]:
        """Rewind to what the cache shares with a prompt, and return the rest; the last token is always read again.

        Nothing is shared if the result must be `reproducible`, since reading in other parts changes the logits
        slightly, and nothing that an encoder has read. The cache's contents count as unknown until `keep`, in case of
        errors. A prompt that was set `aside` continues from there.
        """
        apart = reproducible or self.session.whole_prompts or aside is not None
        shared = 0 if apart else self.session.nearest(shared_length(self._tokens, prompt))
        best = aside if apart else self._find(prompt, shared + WORTH)
        lost = len(self._tokens) - (0 if best else shared)
        worth = self._lasting and lost >= WORTH and CHEAPER * lost >= len(self._tokens)
        if worth and (prefix := self.copy()):
            self._add(prefix)
        self._tokens, self._lasting = [], False
        if best:
            shared = shared_length(best.tokens, prompt)
            self.session.restore(prompt[:shared], best.found)
        elif shared != self.session.length or not shared:
            self.session.rewind(shared)
        return prompt[shared:]

    def _find(self, prompt: list[int], least: int) -> Prefix | None:
        """The prefix that shares the most tokens with a prompt, at least `least`; marks it as used."""
        place = self.session.placement
        while self.arrived:
            self._add(self.arrived.popleft())
        self.prefixes = [prefix for prefix in self.prefixes if prefix.placement == place]
        best = max(self.prefixes, key=lambda prefix: self._useful(prefix, prompt), default=None)
        if best is None or self._useful(best, prompt) < least:
            return None
        self.prefixes.append(self.prefixes.pop(self.prefixes.index(best)))
        return best

    def _useful(self, prefix: Prefix, prompt: list[int]) -> int:
        """How many tokens of a prompt a prefix saves."""
        shared = shared_length(prefix.tokens, prompt)
        return shared if self.session.serves(prefix.found, shared) else 0

    def copy(self) -> Prefix | None:
        """A copy of what the session has cached; None if unknown, or if it cannot be restored."""
        if len(self._tokens) != self.session.length or (found := self.session.export(0)) is None:
            return None
        return Prefix(self._tokens, {name: values.copy() for name, values in found.items()}, self.session.placement)

    def set_aside(self, prompt: list[int]) -> Prefix | None:
        """Keep what was read of a prompt that others will overtake; None if memory is short."""
        free = available_memory()
        if free is not None and 2 * self.session.length * self.session.token_bytes > free:
            return None
        self.keep(prompt)
        try:
            return self.copy()
        except MemoryError:
            return None

    def store(self, history: Sequence[int], found: KeyValues, length: int) -> None:
        """Keep an exported cache of the first `length` tokens of `history`, evicting the least recently used."""
        self._add(Prefix(list(history[:length]), found, self.session.placement))

    def _add(self, prefix: Prefix) -> None:
        self.prefixes = [one for one in self.prefixes if one.tokens != prefix.tokens[: len(one.tokens)]]
        free = available_memory()
        held = sum(one.size for one in self.prefixes)
        most = min(BUDGET, BUDGET if free is None else (free + held) // SHARE)
        while self.prefixes and (held + prefix.size > most or len(self.prefixes) >= MOST):
            held -= self.prefixes.pop(0).size
        if prefix.size <= most:
            self.prefixes.append(prefix)

    def keep(self, history: list[int], *, lasting: bool = False) -> None:
        """Leave one row in the cache, whose tokens begin `history`."""
        if self.session.batch > 1:
            self.session.reorder([0])
        self._tokens, self._lasting = history[: self.session.length], lasting

    def forget(self) -> None:
        """Empty the session's cache."""
        self._tokens, self._lasting = [], False
        self.session.rewind(0)

    def extract(self, tokens: list[int]) -> Prefix | None:
        """The cached part of a text, as views valid until the session's next call; None if it is short.

        It ends at a multiple of the page size, whatever the actual pages, and so holds nothing of what else followed
        the text. Recurrent states, which have no pages, are those after all cached tokens of the text.
        """
        unread = self.reuse([*tokens, 0])
        self.keep(tokens)
        length = self.session.length if len(unread) <= len(tokens) else 0
        length = length if self.session.recurrent else length // WORTH * WORTH
        if length < WORTH:
            return None
        self.session.rewind(length)
        self.keep(tokens, lasting=True)
        found = self.session.export(0)
        return None if found is None else Prefix(tokens[:length], found, self.session.placement)

    @contextmanager
    def branching(self, prompt: list[int]) -> Iterator[list[int]]:
        """Context in which rows continue a prompt, whose unread tokens are given; afterwards they are dropped."""
        yield self.reuse(prompt)
        if self.session.length > len(prompt):
            self.session.rewind(len(prompt))
        self.keep(prompt)

    def read(self, unread: list[int], wanted: Wanted) -> np.ndarray | None:
        """Read the rest of a prompt in parts; returns the logits (1, 1, vocab), or None if no longer `wanted`."""
        logits = None
        for part in split_prompt(self.session, unread):
            if not wanted():
                return None
            logits = self.session.forward(part)
        return logits


def shared_length(cached: list[int], prompt: list[int]) -> int:
    """How many of a prompt's tokens are cached, its last one aside."""
    return min(count_shared(cached, prompt), len(prompt) - 1)
