"""One request while it is answered: its deltas and its summary."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from backends import Placement
from chatapp.generation.decoding.beams import Beams
from chatapp.generation.decoding.generate import Growth, Stopwatch
from chatapp.generation.decoding.row import Row, Rows
from chatapp.generation.decoding.speculation import Speculation
from chatapp.generation.delta import Delta, Timings, Usage, percentile
from chatapp.generation.memory import peak_memory
from chatapp.generation.text.thinking import Channel, Channels

USUAL = 256
"""Tokens per row assumed when estimating memory, if the request has no limit."""


@dataclass
class Turn:
    """One request while it is answered."""

    prompt: list[int]
    rows: list[Row]
    seed: int
    reproducible: bool
    """Whether the caller chose the seed."""
    watch: Stopwatch
    hold: float
    """Seconds for which tokens may be held back; 0 if the reader may stop at any token."""
    place: Callable[[], Placement]
    """Tells where the model runs, which may change during the turn."""
    load_seconds: float
    lowering_seconds: float
    lasting: bool = True
    """Whether its cached tokens should be kept when another text is read."""
    channels: list[Channels] = field(default_factory=list)
    """What separates each row's thinking from its answer, in a chat."""
    opening: str = ""
    """The thinking mark that ends the prompt; the replies begin with it."""
    fits: Callable[[str], bool] | None = None
    """Whether an answer is valid, if it is constrained."""
    said: list[str] = field(default_factory=list)
    """The answers so far, if they must be checked."""
    speculation: Speculation | None = None
    """Drafts tokens, if that is wanted."""
    finished: int = 0
    """Rows whose last delta was delivered."""
    cached_tokens: int = 0
    read_tokens: int = 0
    """Tokens of the prompt that were read, not cached."""
    prefill_seconds: float = 0.0
    time_to_first_token: float = 0.0
    latencies: list[float] = field(default_factory=list)
    usage: Usage | None = None

    @property
    def most_tokens(self) -> int:
        """An upper estimate of the tokens of all its rows."""
        rows = max(len(self.rows), self.rows[0].sampler.options.num_beams)
        return rows * (len(self.prompt) + min(self.rows[0].limit, USUAL))

    def take_back(self, untold: Iterable[Delta]) -> None:
        """Discard tokens that were chosen but not delivered, or are in `untold` deltas."""
        for row in self.rows:
            row.take_back()
        for delta in untold:
            row = self.rows[delta.index]
            del row.tokens[len(row.tokens) - len(delta.tokens) :]
            self.usage = None

    def deltas(self, growth: Growth, decoding: Rows | Beams) -> Iterator[Delta]:
        """Deltas for the rows that have grown; or one for progress of a prompt, or of a beam search."""
        prefill, decode, sampling = growth.prefill, growth.decode, growth.sampling
        self.prefill_seconds += prefill
        self.read_tokens += growth.read
        grown, events = decoding.grown(growth.totals), tuple(decoding.events)
        decoding.events.clear()
        if events or not grown:
            reading = None if growth.totals else (self.cached_tokens + self.read_tokens, len(self.prompt))
            timings = Timings(prefill, decode, sampling)
            yield Delta(timings=timings, beams=events, reading=reading)
            prefill = decode = sampling = 0.0
        for row, totals in grown:
            begins = not row.seconds
            tokens, text, end = row.tell(totals)
            timings = Timings(prefill, decode, sampling, self.watch.lap())
            prefill = decode = sampling = 0.0  # reported with the first row
            if begins and not self.time_to_first_token:
                self.time_to_first_token = tokens[0].seconds
            self.latencies += [token.seconds for token in tokens[begins:]]
            self.finished += end is not None
            if self.finished == len(self.rows):
                self.usage = self.sum_up()
            text = self.opening + text if begins else text
            *before, (channel, text) = self._parts(row.index, text, ended=end is not None)
            for other, part in before:
                yield Delta(part, row.index, channel=other, score=row.score)
            valid = self._check(row.index, [*before, (channel, text)], ended=end is not None)
            guesses = self.speculation.guesses if self.speculation else None
            ended = guesses, valid, row.stops.stop
            yield Delta(text, row.index, tokens, end, timings, self.usage, channel, row.score, (), None, *ended)

    def _check(self, index: int, parts: Sequence[tuple[Channel, str]], *, ended: bool) -> bool | None:
        """Whether an answer that has ended is valid; None before, or if it is not constrained."""
        if self.fits is None:
            return None
        self.said[index] += "".join(text for channel, text in parts if channel == "text")
        return self.fits(self.said[index]) if ended else None

    def _parts(self, index: int, text: str, *, ended: bool) -> list[tuple[Channel, str]]:
        """Split a text by channels, into at least one part; one if there is no thinking."""
        if not self.channels:
            return [("text", text)]
        channels = self.channels[index]
        parts = [*channels.add(text), *(channels.flush() if ended else ())]
        return parts or [(channels.current, "")]

    def sum_up(self) -> Usage:
        """The summary of the turn."""
        latencies, placement = self.latencies, self.place()
        decoding = max(row.seconds for row in self.rows) - self.time_to_first_token
        return Usage(
            prompt_tokens=len(self.prompt),
            cached_tokens=self.cached_tokens,
            completion_tokens=sum(len(row.tokens) for row in self.rows),
            seed=self.seed,
            time_to_first_token=self.time_to_first_token,
            tokens_per_second=len(latencies) / decoding if decoding > 0 else 0.0,
            p50=percentile(latencies, 50),
            p95=percentile(latencies, 95),
            p99=percentile(latencies, 99),
            first_token=latencies[0] if latencies else 0.0,
            last_token=latencies[-1] if latencies else 0.0,
            prefill_seconds=self.prefill_seconds,
            load_seconds=self.load_seconds,
            lowering_seconds=self.lowering_seconds,
            peak_memory=peak_memory(),
            backend=placement.backend,
            device=placement.device,
            precision=placement.precision,
            latencies=tuple(latencies),
            prompt_digest=sha256(array("q", self.prompt).tobytes()).hexdigest(),
            drafted=self.speculation.drafted if self.speculation else 0,
            accepted=self.speculation.accepted if self.speculation else 0,
            speculation_gain=self.speculation.gain if self.speculation else None,
        )
