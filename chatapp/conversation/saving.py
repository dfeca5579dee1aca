"""Saves a conversation as it grows, and retries when saving failed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from chatapp.conversation.setup import Setup
from chatapp.conversation.tree import Tree
from chatapp.generation import Token
from chatapp.history import HistoryError, Kind, Message

if TYPE_CHECKING:
    from chatapp.history import History

PAUSE = 0.25
"""Minimum seconds between two saves of a growing reply; at most this much is lost if chatapp is killed."""
SHARE = 0.02
"""The share of time that saving may take: the longer a save took, the longer the pause after it."""
RETRY = 5.0
"""Minimum seconds between attempts while saving fails."""
RETRY_SHARE = 0.2
"""The share of time that failing attempts may take, since each one waits for a locked database."""


class Saving:
    """The unsaved changes of a tree; the only place that handles a failing disk."""

    def __init__(
        self,
        history: "History | None",
        tree: Tree,
        *,
        conversation: int | None,
        kind: Kind,
        warn: Callable[[str], object],
    ) -> None:
        self.history, self.tree, self.conversation, self.kind, self.warn = history, tree, conversation, kind, warn
        self.failure: HistoryError | None = None
        """Why the last save failed; None if it succeeded."""
        self.setup = Setup()
        self.new: list[int] = []
        self.changed: set[int] = set()
        self.gone: list[int] = []
        self.tokens: dict[int, Sequence[Token]] = {}
        """By message: tokens of ended replies that are not saved yet."""
        self.latencies: dict[int, Sequence[float]] = {}
        self.draft: str | None = None
        self.setup_changed = self.leaf_changed = False
        self._due = 0.0
        self._writing = Lock()

    @property
    def is_behind(self) -> bool:
        """Whether anything is unsaved."""
        if self.conversation is None:
            return bool(self.new or self.draft)
        return bool(
            self.new or self.changed or self.gone or self.setup_changed or self.leaf_changed or self.draft is not None
        )

    def add(self, message: Message) -> int:
        """Add a message to the tree; returns its id."""
        new = self.tree.add(message)
        self.new.append(new.id)
        return new.id

    def change(self, message: int, **facts: Any) -> None:  # Any: fields of Message
        """Change fields of a message."""
        number = self.tree.number(message)
        self.tree.change(number, **facts)
        self.changed.add(number)

    def show(self, message: int) -> None:
        """Show the branch that ends with a message."""
        self.tree.leaf = self.tree.number(message)
        self.leaf_changed = True

    def grow(self, number: int) -> None:
        """Note that a reply has grown, and save it if the pause is over."""
        self.changed.add(number)
        if time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Save everything unsaved; a failure is warned about once and retried later."""
        if not self.history or not self.is_behind:
            return
        start = time.monotonic()
        with self._writing:
            try:
                self._write(self.history)
            except HistoryError as error:
                spent = time.monotonic() - start
                self._due = time.monotonic() + max(RETRY, spent / RETRY_SHARE)
                failed_before, self.failure = self.failure, error
                if not failed_before:
                    self.warn(f"this conversation is not being saved: {error}")
                return
        self._due = time.monotonic() + max(PAUSE, (time.monotonic() - start) / SHARE)
        if self.failure:
            self.failure = None
            self.warn("this conversation is being saved again, with everything written meanwhile")

    def save_if_well(self) -> None:
        """Save now, unless saving failed recently and the retry is not due yet."""
        if not self.failure or time.monotonic() >= self._due:
            self.save()

    def withdraw(self, number: int) -> None:
        """Note that a message was removed from the tree."""
        self.changed.discard(number)
        if number in self.new:
            self.new.remove(number)
        else:
            self.gone.append(number)

    def _write(self, history: "History") -> None:
        """Write all changes; each one is dropped here only once it is on the disk."""
        if self.conversation is None:
            if not self.new and not self.draft:
                return
            self.conversation = history.create(self.kind, model=self.setup.model, setup=self.setup.as_json()).id
            self.setup_changed = False
        while self.gone:
            history.withdraw(self.gone[0])
            self.gone.pop(0)
        while self.new:
            self._put(history, self.conversation)
        for number in list(self.changed):
            self._update(history, number)
        if self.leaf_changed and (leaf := self.tree.leaf) is not None:
            history.select(leaf)
            self.leaf_changed = self.tree.leaf != leaf
        if self.setup_changed:
            setup = self.setup
            history.keep_setup(self.conversation, setup.as_json())
            self.setup_changed = self.setup is not setup
        if (draft := self.draft) is not None:
            history.keep_draft(self.conversation, draft)
            self.draft = None if self.draft == draft else self.draft

    def _put(self, history: "History", conversation: int) -> None:
        """Save the first new message in its current state."""
        number = self.new[0]
        self.changed.discard(number)
        message = replace(self.tree[number], conversation=conversation)
        kept = history.put(message, tokens=self.tokens.get(number, ()), latencies=self.latencies.get(number, ()))
        self.new.pop(0)
        self.tree.renumber(number, kept.id, conversation)
        self.leaf_changed = self.tree.leaf != kept.id
        self._forget(number, message)
        if number in self.changed:  # it grew while it was being written
            self.changed.remove(number)
            self.changed.add(kept.id)

    def _update(self, history: "History", number: int) -> None:
        """Save the changes of a message."""
        self.changed.discard(number)
        message = self.tree[number]
        try:
            history.change(message, tokens=self.tokens.get(number, ()), latencies=self.latencies.get(number, ()))
        except HistoryError:
            self.changed.add(number)
            raise
        self._forget(number, message)

    def _forget(self, number: int, message: Message) -> None:
        """Drop the tokens and latencies of a saved message, unless it has grown since."""
        if number in self.tokens and message.text == self.tree[number].text:
            del self.tokens[number], self.latencies[number]
