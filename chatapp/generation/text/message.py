"""One message of a conversation."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """What one side said."""

    role: str
    """system, user or assistant."""
    text: str
