"""A message of a conversation, as a chat template takes it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    """system, user or assistant."""
    text: str
