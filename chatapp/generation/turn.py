"""One request while it is answered: what is told of it, and its summary."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from backends import Placement
from chatapp.generation.decoding.beams import Beams
from chatapp.generation.decoding.generate import Growth, Stopwatch
from chatapp.generation.decoding.row import Row, Rows
from chatapp.generation.delta import Delta, Timings, Usage, percentile
from chatapp.generation.memory import peak_memory
from chatapp.generation.text.thinking import Channel, Channels

NO_TIME = Timings(0.0, 0.0, 0.0, 0.0)


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
    channels: list[Channels] = field(default_factory=list)
    """Of the rows, where it is a chat: what is thinking, and what is answer."""
    opening: str = ""
    """The mark with which the template has opened the thinking: the replies begin with it."""
    finished: int = 0
    """Rows whose last delta was told."""
    cached_tokens: int = 0
    prefill_seconds: float = 0.0
    time_to_first_token: float = 0.0
    latencies: list[float] = field(default_factory=list)
    usage: Usage | None = None

    def deltas(self, growth: Growth, decoding: Rows | Beams) -> Iterator[Delta]:
        """A delta for each row that has grown, or one that says that the prompt is read, or beams are compared."""
        prefill, decode, sampling = growth.prefill, growth.decode, growth.sampling
        self.prefill_seconds += prefill
        grown, events = decoding.grown(growth.totals), tuple(decoding.events)
        decoding.events.clear()
        if events or not grown:
            yield Delta("", 0, (), None, Timings(prefill, decode, sampling, 0.0), None, beams=events)
            prefill = decode = sampling = 0.0
        for row, totals in grown:
            begins = not row.seconds
            tokens, text, finish_reason = row.tell(totals)
            timings = Timings(prefill, decode, sampling, self.watch.lap())
            prefill = decode = sampling = 0.0  # told with the first row
            if begins and not self.time_to_first_token:
                self.time_to_first_token = tokens[0].seconds
            self.latencies += [token.seconds for token in tokens[begins:]]
            self.finished += finish_reason is not None
            if self.finished == len(self.rows):
                self.usage = self.sum_up()
            text = self.opening + text if begins else text
            *before, (channel, text) = self._parts(row.index, text, ended=finish_reason is not None)
            for other, part in before:
                yield Delta(part, row.index, (), None, NO_TIME, None, other)
            score = row.score if finish_reason else None
            yield Delta(text, row.index, tokens, finish_reason, timings, self.usage, channel, score)

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
            tokens_per_second=len(latencies) / decoding if latencies else 0.0,
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
        )
