"""A message of a conversation, as a chat template takes it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolCall:
    """A function that a model wants to be called."""

    name: str
    arguments: str
    """A JSON object, as text."""
    id: str = ""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    """system, user or assistant; tool, where it is what a function gave."""
    text: str
    calls: tuple[ToolCall, ...] = ()
    """Functions that an assistant's message calls."""
    answers: ToolCall | None = None
    """The call that a tool's message answers."""
