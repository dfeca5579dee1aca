"""What a session's cache holds, so that of the next prompt only what is new is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from backends import Session
from chatapp.generation.decoding.generate import split_prompt


class PromptCache:
    """A session whose cached tokens are known."""

    def __init__(self, session: Session):
        self.session = session
        self._tokens: list[int] = []

    def reuse(self, prompt: list[int], *, reproducible: bool = False) -> list[int]:
        """Rewind to what the cache shares with a prompt, and return the rest; the last token is always read anew.

        Nothing is shared where it is to be `reproducible`: a prompt read in other parts gives logits that differ a
        little, and the same seed is to give the same text. Nor with what an encoder has read. Until `keep` says what
        the cache holds, it is not known: there may be an error.
        """
        cached = [] if reproducible or self.session.whole_prompts else self._tokens
        self._tokens = []
        pairs = enumerate(zip(cached, prompt, strict=False))
        shared = next((i for i, (a, b) in pairs if a != b), min(len(cached), len(prompt) - 1))
        if shared != self.session.length or not shared:
            self.session.rewind(shared)
        return prompt[shared:]

    def keep(self, history: list[int]) -> None:
        """Leave one row in the cache, whose tokens begin `history`."""
        if self.session.batch > 1:
            self.session.reorder([0])
        self._tokens = history[: self.session.length]

    @contextmanager
    def branching(self, prompt: list[int]) -> Iterator[list[int]]:
        """Inside, rows go on from a prompt, of which these tokens are still to be read; then they are forgotten."""
        yield self.reuse(prompt)
        if self.session.length > len(prompt):
            self.session.rewind(len(prompt))
        self.keep(prompt)

    def read(self, unread: list[int], wanted: Callable[[], bool]) -> np.ndarray | None:
        """The logits (1, 1, vocab) after the unread tokens of a prompt; None where `wanted` says no before a part."""
        logits = None
        for part in split_prompt(self.session, unread):
            if not wanted():
                return None
            logits = self.session.forward(part)
        return logits
