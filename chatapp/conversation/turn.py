"""One question and its replies."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from chatapp.generation import Delta, Engine, FinishReason, Options, Token
from chatapp.history import Message
from chatapp.history.text import clean


@dataclass
class Turn:
    """One question and its replies, begun and saved; draw `deltas` in any one thread, closing cancels.

    A turn that ends before the first token, cancelled or refused, is taken back: then nobody asked.
    """

    question: Message | None
    """The message just added; None where an answer is given again."""
    replies: tuple[Message, ...]
    """The begun replies: empty, or with the text they go on from."""
    deltas: Generator[Delta, None, None] = field(init=False)
    """What the model says, saved as it passes; one without tokens only tells that the model is at work."""
    left_out: int = 0
    """How many messages (of a text: lines) no longer fitted; known once the first delta came."""
    summarising: bool = False
    """Whether the model is writing the summary that takes their place."""
    withdrawn: bool = False
    """Whether it was taken back."""
    resumed: bool = False
    """Whether the reply was there before, cut off: it goes on in the same message."""


@dataclass
class Request:
    """What a turn is begun with, and what of it would have to be taken back."""

    engine: Engine
    options: Options
    before: int | None
    """The last message that was shown until now."""
    parent: int | None = None
    """What the replies follow."""
    question: Message | None = None
    tokens: Sequence[Token] = ()
    """What the replies begin with."""
    after: str = ""
    """The text that follows a reply, where it fills a gap."""
    added: list[int] = field(default_factory=list)
    """The messages that there were not before, each after its parent."""
    resumed: Message | None = None
    """The reply that goes on, as it was cut off."""


@dataclass
class Growing:
    """One of the replies while it is written."""

    message: int
    text: str
    tokens: list[Token]
    latencies: list[float] = field(default_factory=list)
    """Of the tokens that were decoded now, all but the first."""
    finish_reason: FinishReason | None = None
    heard: bool = False
    timed: bool = False
    """Whether the tokens that it began with were timed: then the first that is decoded now is one of many."""

    thinking_tokens: int = 0
    thinking_seconds: float = 0.0

    def take_up(self, cut: Message) -> None:
        """Go on from what is known of the thinking of a reply that was cut off."""
        tokens, seconds = cut.usage.get("thinking_tokens"), cut.usage.get("thinking_seconds")
        if isinstance(tokens, int) and isinstance(seconds, int | float):
            self.thinking_tokens, self.thinking_seconds = tokens, float(seconds)

    def grow(self, delta: Delta) -> None:
        """Take in what the model said."""
        self.text += clean(delta.text)
        self.tokens += delta.tokens
        self.latencies += [token.seconds for token in (delta.tokens if self.heard or self.timed else delta.tokens[1:])]
        self.heard = self.heard or bool(delta.tokens)
        if delta.channel == "thinking":
            self.thinking_tokens += len(delta.tokens)
            self.thinking_seconds += sum(token.seconds for token in delta.tokens)
        self.finish_reason = delta.finish_reason or self.finish_reason


def is_cut_off(message: Message) -> bool:
    """Whether this is an answer that did not end by itself: a limit, its user or a crash ended it."""
    cut = message.finish_reason in ("length", "cancelled") or not message.finished
    return message.role == "assistant" and bool(message.text) and cut


def is_unanswered(message: Message) -> bool:
    """Whether this is a question without an answer, or an answer that was never begun."""
    return message.role == "user" or (message.role == "assistant" and not (message.text or message.finished))
