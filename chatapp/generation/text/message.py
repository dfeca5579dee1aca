"""A message of a conversation, as a chat template gets it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolCall:
    """A call of a function by a model."""

    name: str
    arguments: str
    """A JSON object, as text."""
    id: str = ""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    """system, user, assistant, or tool for a function's result."""
    text: str
    calls: tuple[ToolCall, ...] = ()
    """Calls in an assistant's message."""
    answers: ToolCall | None = None
    """The call that a tool's message answers."""
