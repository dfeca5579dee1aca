"""What a reply arrives in: deltas with their tokens, their timings and, at the end, the usage."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chatapp.generation.text.thinking import Channel

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have stood here."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """One sampled token of a reply; the end-of-sequence token too, with an empty text."""

    id: int
    text: str
    """What it added to the text; empty while a character is incomplete."""
    logprob: float | None
    """Natural logarithm of its probability before temperature, penalties and filters; None if not asked for."""
    alternatives: tuple[Alternative, ...]
    seconds: float
    """Time spent since the previous token of this reply, without the time the reader held the iterator.

    Of several that one step gave, an equal part each.
    """
    guessed: bool = False
    """Whether a draft had it: then it cost no step of its own."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent since the previous delta of the whole stream."""

    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0
    detokenising: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The summary of one turn; every duration is in seconds, and none has the reader's own time in it."""

    prompt_tokens: int
    cached_tokens: int
    """Of the prompt's tokens, those that the cache still held from the turn before."""
    completion_tokens: int
    """Of all n completions together."""
    seed: int
    time_to_first_token: float
    """From the request, rendering and encoding included, without waiting for another turn's end."""
    tokens_per_second: float
    """After the first token, of all n completions together; 0 when there was only one."""
    p50: float
    p95: float
    p99: float
    first_token: float
    """The first of the latencies."""
    last_token: float
    """The last of the latencies."""
    prefill_seconds: float
    load_seconds: float
    lowering_seconds: float
    """0 when the model was lowered before."""
    peak_memory: int
    """The process's largest resident size so far, in bytes."""
    backend: str
    device: str
    precision: str
    latencies: tuple[float, ...]
    """Of every decoded token: all but the first of each completion, which prefill gives."""
    prompt_digest: str = ""
    """SHA-256 of the prompt's tokens, where they are known."""
    drafted: int = 0
    """Guessed tokens that the model looked at."""
    accepted: int = 0
    """Those of them that it said."""
    speculation_gain: float | None = None
    """How many times quicker the tokens came than by plain steps, measured in the same turn; None where none was
    guessed."""

    def as_dict(self) -> dict[str, Any]:  # Any: int, float, str and list, ready for JSON
        """The same, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {"latencies": list(self.latencies)}


@dataclass(frozen=True, slots=True)
class Guesses:
    """How the guesses of a reply have fared so far."""

    drafted: int
    """Guessed tokens that the model looked at."""
    accepted: int
    """Those of them that it said."""
    gain: float | None
    """How many times quicker the tokens came than by plain steps; None where that is not known yet."""


BeamChange = Literal["extended", "pruned", "finished"]


@dataclass(frozen=True, slots=True)
class BeamEvent:
    """A change in the tree of beams that a search looks at."""

    change: BeamChange
    beam: int
    """Its number."""
    parent: int
    """The beam that it went on from; 0 is the prompt."""
    token: int
    text: str
    """What the token says; nothing, where it ends the text."""
    score: float
    """The sum of the log-probabilities of its tokens; of one that is finished, divided as the length penalty says."""


@dataclass(frozen=True, slots=True)
class Delta:
    """One increment of a reply: a sampled token, or a few where they come more quickly than a screen can show them.

    Some have no text yet.
    """

    text: str = ""
    index: int = 0
    """Which of the n completions."""
    tokens: tuple[Token, ...] = ()
    """None for a part of a long prompt that has been read."""
    finish_reason: FinishReason | None = None
    timings: Timings = Timings()
    usage: Usage | None = None
    """On the very last delta only."""
    channel: Channel = "text"
    """Whether the text, marks and all, is what the model thinks before it answers; a delta has one channel."""
    score: float | None = None
    """Of a text that a beam search has found."""
    beams: tuple[BeamEvent, ...] = ()
    """What a beam search has done since the delta before."""
    reading: tuple[int, int] | None = None
    """While a long prompt is read: how many of its tokens the cache has, and how many there are."""
    guesses: Guesses | None = None
    """Where tokens are guessed, so far."""
    valid: bool | None = None
    """Of an answer that had to be something, with its last delta: whether it is; None of any other."""
    stop: str | None = None
    """The stop string that has ended it, with its last delta."""


Deltas = Generator[Delta, None, None]
WAITING = Delta()
"""Nothing has come: the reader may leave."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile with linear interpolation, as numpy.percentile has it; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
