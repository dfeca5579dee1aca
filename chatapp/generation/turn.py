"""One request while it is answered: what is told of it, and its summary."""

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
"""Tokens for which memory is reckoned, where nobody can say how many there will be."""


@dataclass
class Turn:
    """One request while it is answered."""

    prompt: list[int]
    rows: list[Row]
    seed: int
    reproducible: bool
    """The caller chose the seed."""
    watch: Stopwatch
    hold: float
    """Seconds for which tokens may be held back: none where the reader may have enough."""
    place: Callable[[], Placement]
    """Tells where the model runs, which may be elsewhere when the turn has ended."""
    load_seconds: float
    lowering_seconds: float
    lasting: bool = True
    """Whether what the cache holds of it is worth keeping when another text is read."""
    channels: list[Channels] = field(default_factory=list)
    """Of the rows, where it is a chat: what is thinking, and what is answer."""
    opening: str = ""
    """The mark with which the template has opened the thinking: the replies begin with it."""
    fits: Callable[[str], bool] | None = None
    """Whether an answer is what it has to be, where something is asked of it."""
    said: list[str] = field(default_factory=list)
    """The answers so far, where that is asked."""
    speculation: Speculation | None = None
    """What guesses how the reply goes on, if something does."""
    finished: int = 0
    """Rows whose last delta was told."""
    cached_tokens: int = 0
    read_tokens: int = 0
    """Of the prompt, besides those that were cached."""
    prefill_seconds: float = 0.0
    time_to_first_token: float = 0.0
    latencies: list[float] = field(default_factory=list)
    usage: Usage | None = None

    @property
    def most_tokens(self) -> int:
        """How many tokens its rows may come to have in all, as far as one can tell."""
        rows = max(len(self.rows), self.rows[0].sampler.options.num_beams)
        return rows * (len(self.prompt) + min(self.rows[0].limit, USUAL))

    def take_back(self, untold: Iterable[Delta]) -> None:
        """What was chosen, or is in deltas that nobody has taken, was never said."""
        for row in self.rows:
            row.take_back()
        for delta in untold:
            row = self.rows[delta.index]
            del row.tokens[len(row.tokens) - len(delta.tokens) :]
            self.usage = None

    def deltas(self, growth: Growth, decoding: Rows | Beams) -> Iterator[Delta]:
        """A delta for each row that has grown, or one that says that the prompt is read, or beams are compared."""
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
            prefill = decode = sampling = 0.0  # told with the first row
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
        """Whether an answer that has ended with these parts is what it has to be; None before, or where all may be."""
        if self.fits is None:
            return None
        self.said[index] += "".join(text for channel, text in parts if channel == "text")
        return self.fits(self.said[index]) if ended else None

    def _parts(self, index: int, text: str, *, ended: bool) -> list[tuple[Channel, str]]:
        """A text by its channels: one part at least, and only one where nothing thinks."""
        if not self.channels:
            return [("text", text)]
        channels = self.channels[index]
        parts = [*channels.add(text), *(channels.flush() if ended else ())]
        return parts or [(channels.current, "")]

    def sum_up(self) -> Usage:
        """The summary of what was told."""
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
