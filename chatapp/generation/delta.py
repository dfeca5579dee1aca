"""The parts a reply arrives in: deltas with tokens, timings and, at the end, the usage."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chatapp.generation.text.thinking import Channel

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have been chosen instead."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply, the end-of-sequence token included, whose text is empty."""

    id: int
    text: str
    """The text that it added; empty while a character is incomplete."""
    logprob: float | None
    """Natural logarithm of its probability, before temperature, penalties and filters; None if not asked for."""
    alternatives: tuple[Alternative, ...]
    seconds: float
    """Seconds since the reply's previous token, without the time in which the reader held the iterator.

    Tokens of one step share its time equally."""
    guessed: bool = False
    """Whether it was drafted, so that it needed no step of its own."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent since the previous delta of the stream."""

    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0
    detokenising: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The summary of one turn; durations are in seconds, and exclude the reader's own time."""

    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prompt that the cache still held."""
    completion_tokens: int
    """Total of all n completions."""
    seed: int
    time_to_first_token: float
    """Seconds from the request on, with rendering and encoding, but without waiting for another turn."""
    tokens_per_second: float
    """After the first token, for all n completions together; 0 if there was only one."""
    p50: float
    p95: float
    p99: float
    first_token: float
    """The first latency."""
    last_token: float
    """The last latency."""
    prefill_seconds: float
    load_seconds: float
    lowering_seconds: float
    """0 if the model had been lowered before."""
    peak_memory: int
    """The process's peak resident memory so far, in bytes."""
    backend: str
    device: str
    precision: str
    latencies: tuple[float, ...]
    """One for each decoded token: all but the first of each completion, which comes from prefill."""
    prompt_digest: str = ""
    """SHA-256 of the prompt's tokens; empty if they are unknown."""
    drafted: int = 0
    """Drafted tokens that the model verified."""
    accepted: int = 0
    """Drafted tokens that the model accepted."""
    speculation_gain: float | None = None
    """The speed-up over plain steps, measured in the same turn; None if nothing was drafted."""

    def as_dict(self) -> dict[str, Any]:  # Any: int, float, str and list, ready for JSON
        """The fields, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {"latencies": list(self.latencies)}


@dataclass(frozen=True, slots=True)
class Guesses:
    """How a reply's drafts have fared so far."""

    drafted: int
    """Drafted tokens that the model verified."""
    accepted: int
    """Drafted tokens that the model accepted."""
    gain: float | None
    """The speed-up over plain steps; None if not known yet."""


BeamChange = Literal["extended", "pruned", "finished"]


@dataclass(frozen=True, slots=True)
class BeamEvent:
    """A change in the tree of a beam search."""

    change: BeamChange
    beam: int
    """The beam's number."""
    parent: int
    """The beam that it continues; 0 is the prompt."""
    token: int
    text: str
    """The token's text; empty if it ends the text."""
    score: float
    """The sum of its tokens' log-probabilities; for a finished text, divided by the length penalty."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One increment of a reply: one token, or several if they come faster than a screen can show them.

    The text may be empty.
    """

    text: str = ""
    index: int = 0
    """Index of the completion, of n."""
    tokens: tuple[Token, ...] = ()
    """Empty while a long prompt is read."""
    finish_reason: FinishReason | None = None
    timings: Timings = Timings()
    usage: Usage | None = None
    """On the last delta only."""
    channel: Channel = "text"
    """Whether the text is thinking, with its marks, or answer; a delta has one channel."""
    score: float | None = None
    """The score of a text that a beam search found."""
    beams: tuple[BeamEvent, ...] = ()
    """What a beam search has done since the previous delta."""
    reading: tuple[int, int] | None = None
    """While a long prompt is read: how many of its tokens were read, and how many there are."""
    guesses: Guesses | None = None
    """The drafts so far, if tokens are drafted."""
    valid: bool | None = None
    """On the last delta of a constrained answer: whether it is valid; None otherwise."""
    stop: str | None = None
    """On the last delta: the stop string that ended it."""


Deltas = Generator[Delta, None, None]
WAITING = Delta()
"""Nothing new; lets the reader leave."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile with linear interpolation, as numpy.percentile; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
