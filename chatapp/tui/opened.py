"""A model that has been opened, and what draws its replies in their threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chatapp.generation import Delta, Message, Options
    from chatapp.tui.reply import Reply

CONTINUATION = 128
"""Tokens after which a continuation pauses: a base model seldom ends by itself."""


class Placement(Protocol):
    """Where a model runs, as read back from the runtime."""

    @property
    def backend(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...


class Engine(Protocol):
    """What the screen needs of `chatapp.generation.Engine`."""

    @property
    def context_length(self) -> int: ...
    @property
    def placement(self) -> Placement: ...
    @property
    def defaults(self) -> Options: ...
    @property
    def can_chat(self) -> bool: ...
    @property
    def can_infill(self) -> bool: ...
    def count_tokens(self, text: str) -> int: ...
    def chat(self, messages: Sequence[Message], options: Options) -> Iterator[Delta]: ...
    def complete(self, text: str, options: Options) -> Iterator[Delta]: ...
    def infill(self, prefix: str, suffix: str, options: Options) -> Iterator[Delta]: ...


Draw = Callable[["Reply"], "Iterator[Delta]"]
"""Draws a reply from the model, in the thread of the reply."""


@dataclass(frozen=True)
class Choices:
    """What the user chose for the replies, and how many there were before this one."""

    options: Options | None
    attempts: int

    def taken(self, engine: Engine) -> Options:
        """The options of this reply: a fixed seed counts on, or trying again would give the same text."""
        options = self.options or engine.defaults
        return options if options.seed is None else replace(options, seed=options.seed + self.attempts)


@dataclass(frozen=True)
class Opened:
    """A model ready to answer, and what to tell about it."""

    engine: Engine
    name: str
    parameters: int
    seconds: float
    """How long opening took."""

    @property
    def place(self) -> str:
        """Back end, device and precision."""
        placement = self.engine.placement
        return f"{placement.backend} · {placement.device} · {placement.precision}"

    def continuation(self, text: str, choices: Choices) -> Draw:
        """What draws a continuation of the text."""

        def draw(reply: Reply) -> Iterator[Delta]:
            reply.prompt_tokens = self.engine.count_tokens(text)
            options = choices.taken(self.engine)
            return self.engine.complete(text, replace(options, max_tokens=options.max_tokens or CONTINUATION))

        return draw

    def infill(self, prefix: str, suffix: str, choices: Choices) -> Draw:
        """What draws the text that is missing between two others."""

        def draw(reply: Reply) -> Iterator[Delta]:
            reply.prompt_tokens = self.engine.count_tokens(prefix) + self.engine.count_tokens(suffix)
            return self.engine.infill(prefix, suffix, choices.taken(self.engine))

        return draw

    def answer(self, turns: Sequence[tuple[str, str]], choices: Choices, *, held: int) -> Draw:
        """What draws an answer to the last of the turns; those before it hold so many tokens already."""

        def draw(reply: Reply) -> Iterator[Delta]:
            from chatapp.generation import Message

            reply.prompt_tokens = held + self.engine.count_tokens(turns[-1][1])
            return self.engine.chat([Message(role, text) for role, text in turns], choices.taken(self.engine))

        return draw
