"""The messages of one conversation in memory: a tree, one branch of which is shown."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, TypeVar

from chatapp.history import HistoryError, Message
from chatapp.text.printable import printable

Number = TypeVar("Number", int, int | None)


class Tree:
    """Messages by id; those not saved yet have negative ids, which stay valid after saving gave them others."""

    def __init__(self, messages: Sequence[Message] = (), leaf: int | None = None) -> None:
        self.lock = RLock()
        self.leaf = leaf
        self._messages: dict[int, Message] = {}
        self._growing: dict[int, str] = {}
        """Texts of replies being generated, kept apart because replacing a Message at each delta would be slow."""
        self._children: defaultdict[int | None, list[int]] = defaultdict(list)
        self._renumbered: dict[int | None, int] = {}
        self._added = 0
        for message in messages:
            self._place(message)
        if leaf is not None and leaf not in self._messages:  # a damaged history
            self.leaf = max(self._messages, default=None)

    def number(self, message: Number) -> Number:
        """The current id of a message; None stays None."""
        return self._renumbered.get(message, message)

    def __getitem__(self, message: int) -> Message:
        with self.lock:
            found = self._messages.get(self.number(message))
            if found is None:
                raise HistoryError(f"message {message} no longer exists")
            text, versions = self._growing.get(found.id, found.text), tuple(self._children[found.parent])
            if text is found.text and versions == found.versions:  # true of every message read from the history
                return found
            return replace(found, text=text, versions=versions)

    def add(self, message: Message) -> Message:
        """Add a message and show the branch that ends with it."""
        with self.lock:
            self._added += 1
            new = replace(message, id=-self._added, parent=self.number(message.parent))
            self._place(new)
            self.leaf = new.id
            return self[new.id]

    def grow(self, message: int, text: str) -> int:
        """Append text to a reply being generated; returns its current id."""
        with self.lock:
            number = self.number(message)
            before = self._growing[number] if number in self._growing else self._messages[number].text
            self._growing[number] = before + text
            return number

    def change(self, message: int, **facts: Any) -> None:  # Any: fields of Message
        """Change fields of a message."""
        with self.lock:
            number = self.number(message)
            grown = {"text": self._growing.pop(number)} if number in self._growing else {}
            self._messages[number] = replace(self._messages[number], **grown | facts)

    def remove(self, message: int) -> None:
        """Remove a message that has no children."""
        with self.lock:
            gone = self._messages.pop(self.number(message))
            self._growing.pop(gone.id, None)
            self._children[gone.parent].remove(gone.id)

    def renumber(self, message: int, new: int, conversation: int) -> None:
        """Give a message the id it got in the history."""
        with self.lock:
            old = self._messages.pop(message)
            self._messages[new] = replace(old, id=new, conversation=conversation)
            if message in self._growing:
                self._growing[new] = self._growing.pop(message)
            siblings = self._children[old.parent]
            siblings[siblings.index(message)] = new
            self._children[new] = self._children.pop(message, [])
            for child in self._children[new]:
                self._messages[child] = replace(self._messages[child], parent=new)
            self._renumbered[message] = new
            if self.leaf == message:
                self.leaf = new

    def messages(self) -> list[Message]:
        """All messages, each after its parent."""
        with self.lock:
            found, places = list[Message](), list(self._children.get(None, ()))
            while places:
                found.append(self[places.pop(0)])
                places += self._children.get(found[-1].id, ())
            return found

    def branch(self, leaf: int | None) -> list[Message]:
        """The messages from the root to this leaf."""
        with self.lock:
            path: list[Message] = []
            leaf = self.number(leaf)
            while leaf is not None:
                path.append(self[leaf])
                leaf = path[-1].parent
            return path[::-1]

    def children(self, message: int | None) -> Sequence[Message]:
        """The children of a message, oldest first."""
        with self.lock:
            return [self[one] for one in self._children[self.number(message)]]

    def newest_leaf(self, message: int) -> int:
        """The leaf reached from a message by following the newest child each time."""
        with self.lock:
            message = self[message].id
            while self._children.get(message):
                message = self._children[message][-1]
            return message

    def match(self, text: str) -> tuple[int | None, str]:
        """The longest branch that a displayed text begins with: its last message, and the rest of the text.

        If several fit, the branch that is shown wins, then the newest.
        """
        with self.lock:
            shown = {message.id for message in self.branch(self.leaf)}
            last: int | None = None
            while fitting := [one for one in self.children(last) if one.text and text.startswith(printable(one.text))]:
                one = max(fitting, key=lambda one: (one.id in shown, one.versions.index(one.id)))
                last, text = one.id, text[len(printable(one.text)) :]
            return last, text

    def _place(self, message: Message) -> None:
        self._messages[message.id] = message
        self._children[message.parent].append(message.id)
