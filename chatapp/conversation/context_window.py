"""What of a conversation goes into the prompt when not all of it fits the context."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chatapp.generation import Engine, GenerationError, Message, Options
from chatapp.history import Message as Kept

PROBE = "You are a probe. " * 30
"""A system prompt that no template has by itself."""
SUMMARY = "Summary of the conversation so far:"


@dataclass
class Window:
    """Where the prompt begins; it stays there while it can, so that the cache can be used again."""

    first: int | None = None
    """The message that it begins with, of a text the characters left out."""
    limit: int | None = None
    """The tokens it was chosen for, where that is known."""

    def choose(self, engine: Engine, options: Options, starts: Sequence[int], count: Callable[[int], int]) -> int:
        """Which of the places where it may begin; `count` tells the tokens of a prompt that begins there.

        Where something has to be left out, it is so much that the next few turns fit as well.
        """
        limit = engine.context_length - room(engine, options)
        first = self.first
        if first is not None and first in starts and self.limit in (None, limit) and count(first) <= limit:
            self.limit = limit
            return first
        first = starts[0]
        if count(first) > limit:
            spare = limit - engine.context_length // 4
            first = starts[min(bisect_left(starts, True, key=lambda at: count(at) <= spare), len(starts) - 1)]
        self.first, self.limit = first, limit
        return first


def room(engine: Engine, options: Options) -> int:
    """The tokens that the prompt leaves to the answer."""
    quarter, half = engine.context_length // 4, engine.context_length // 2
    return min(options.max_tokens or quarter, half)


def prompt(engine: Engine, said: Sequence[Kept], *, system: str, summary: str = "") -> list[Message]:
    """The conversation as the model is told it.

    A template that knows no system prompt gets it as the beginning of the first user's message.
    """
    messages = [Message(one.role, one.text) for one in said]
    if summary:
        system = f"{system}\n\n{SUMMARY}\n{summary}".strip()
    if not system:
        return messages
    if takes_system(engine):
        return [Message("system", system), *messages]
    place = next((i for i, one in enumerate(messages) if one.role == "user"), None)
    if place is not None:
        messages[place] = Message("user", f"{system}\n\n{messages[place].text}")
    return messages


def takes_system(engine: Engine) -> bool:
    """Whether the model's chat template has a place for a system prompt."""
    asked = Message("user", "x")
    try:
        return engine.count_chat([Message("system", PROBE), asked]) != engine.count_chat([asked])
    except GenerationError:
        return False


def turns(said: Sequence[Kept]) -> list[int]:
    """Where the turns of a conversation begin."""
    return sorted({0, *(place for place, one in enumerate(said) if one.role == "user")})
