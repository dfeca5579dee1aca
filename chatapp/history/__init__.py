"""Conversations, kept on this machine: their records, and the errors of the history that keeps them.

HistoryError
  NotUnderstood    a file to import is not what we know

`History` and what it needs (sqlite3) are imported when first asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from backends.errors import UserError
from chatapp.generation.text.message import ToolCall

if TYPE_CHECKING:
    from chatapp.history.history import History as History

Kind = Literal["chat", "completion"]
"""A conversation, or a text that its user and a base model write together."""
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True)
class Conversation:
    """One conversation, without its messages."""

    id: int
    title: str
    """The user's, or the first words."""
    kind: Kind
    model: str
    """The model that it began with."""
    created: float
    """Seconds since 1970, as all times here."""
    updated: float
    """When the last message was added."""
    messages: int
    """The number of messages, in all branches."""
    leaf: int | None
    """The last message of the shown branch."""
    deleted: float | None = None
    setup: Mapping[str, Any] = field(default_factory=dict)  # Any: JSON
    """How it is answered; search results come without."""
    damaged: tuple[str, ...] = ()
    """The columns with damaged values, which were left out."""
    pinned: bool = False
    """Whether it is listed before all others; what a search finds comes without."""


@dataclass(frozen=True)
class Message:
    """One message; its parent is the one before it, and messages with one parent are its versions."""

    id: int
    conversation: int
    parent: int | None
    role: Role
    text: str
    """In a completion: the part that this side wrote."""
    created: float
    finished: bool = True
    """False while a reply grows, and for ever if chatapp was killed then."""
    finish_reason: str | None = None
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # Any: JSON, as all that follows
    """The options of a reply."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """A reply's usage, without its latencies, which `History.latencies` returns."""
    versions: tuple[int, ...] = ()
    """The messages with the same parent, this one included, oldest first."""
    summary: str = ""
    """A summary of everything up to this message, if the model was given one."""
    calls: tuple[ToolCall, ...] = ()
    """The calls in a reply; for a tool's message, the call that it answers."""
    damaged: tuple[str, ...] = ()
    """The columns with damaged values, as in a conversation."""


@dataclass(frozen=True)
class Found:
    """A conversation that a search found."""

    conversation: Conversation
    message: int | None
    """Where the words are; None: in the title."""
    snippet: str
    marks: tuple[tuple[int, int], ...]
    """Where the words are in the snippet: start and end of each."""


class HistoryError(UserError):
    """Conversations cannot be kept or found."""


class NotUnderstood(HistoryError):
    """A file to import is damaged, or none of the formats that are known."""


def __getattr__(name: str) -> object:
    if name == "History":
        from chatapp.history.history import History

        return History
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
