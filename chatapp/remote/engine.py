"""The engine's contract for a remote model: deltas from a server's events, timings by the local clock."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from backends import Placement
from chatapp.generation.contract import UNKNOWN_CONTEXT, Wanted, yes
from chatapp.generation.delta import (
    WAITING,
    Alternative,
    Delta,
    Deltas,
    FinishReason,
    Timings,
    Token,
    Usage,
    percentile,
)
from chatapp.generation.errors import GenerationError
from chatapp.generation.memory import peak_memory
from chatapp.generation.options import Options, check_together
from chatapp.generation.text.message import Message
from chatapp.generation.text.surroundings import Around
from chatapp.generation.text.thinking import THINK, Channel, Channels, Think
from chatapp.remote.calls import HINT, Calls, read_names
from chatapp.remote.connection import Connection, Refused
from chatapp.remote.errors import RemoteError
from chatapp.remote.protocol import Chunk, Counts, Dialect, RemoteModel, Request

if TYPE_CHECKING:
    from chatapp.generation.decoding.lines import Line

BYTES_PER_TOKEN = 4.0
"""For English text, until a server has counted a prompt."""
AROUND = 4
"""Approximate tokens that a template adds to a message."""
LINE_TOKENS = 64
PATIENCE = 20
"""Ticks of silence after all answers have ended before the connection is closed: two seconds."""
UNTOLD = -0.5
"""The log-probability assumed for a greedy token if the server does not report it; typical of small models."""


@dataclass
class Row:
    """One completion of a stream."""

    index: int
    begun: str
    channels: Channels | None
    calls: Calls
    finish_reason: FinishReason | None = None
    thinks: bool = False
    """Whether the server is sending thinking."""
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.channels and self.begun:
            self.channels.add(self.begun)


@dataclass
class Stream:
    """The state of one request, which may take several rounds."""

    started: float
    last: float
    sent: int
    """Bytes of the prompt."""
    rows: list[Row] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    time_to_first_token: float = 0.0
    counts: Counts = Counts()
    written: int = 0
    """The server's count of tokens in earlier rounds."""

    def take(self, counts: Counts) -> None:
        """Merge the server's counts, which it may send repeatedly; completion tokens add up over rounds."""
        told = {name: count for name, count in asdict(counts).items() if count is not None}
        if "completion" in told:
            told["completion"] += self.written
        self.counts = replace(self.counts, **told)


class RemoteEngine:
    """A model on a server: text in, deltas out; closing a stream hangs up.

    Servers do not agree on token ids, so tokens get ids of our own, by their text.
    """

    def __init__(
        self, connection: Connection, dialect: Dialect, model: RemoteModel, *, load_seconds: float = 0.0
    ) -> None:
        self.connection, self.dialect, self.model, self.load_seconds = connection, dialect, model, load_seconds
        self.last_usage: Usage | None = None
        self.defaults = dialect.defaults
        self.context_length = connection.remote.context or model.context_length or UNKNOWN_CONTEXT
        self.can_chat, self.can_infill = model.can_chat, model.can_infill
        self.thinking_choices, self.sees_files = model.thinking_choices, False
        self.knows_tools = model.knows_tools and model.can_chat
        self.placement = Placement("remote", connection.remote.host, dialect.name)
        self.origin: Mapping[str, str] = {}  # unknown: a server may compute with anything
        self._bytes_per_token = BYTES_PER_TOKEN
        self._texts: dict[int, str] = {}
        """The text of each token by its id."""

    # Counting, estimated locally: text that is still being typed must not be sent

    def count_tokens(self, text: str) -> int:
        """The estimated number of tokens, from what the server counted for earlier prompts."""
        return -(-len(text.encode(errors="replace")) // max(1, round(self._bytes_per_token))) if text else 0

    def count_prompt(self, text: str | Sequence[int], options: Options) -> int:
        """The estimated number of tokens of a prompt."""
        return self.count_tokens(text) if isinstance(text, str) else len(text)

    def count_chat(
        self,
        messages: Sequence[Message],
        begun: Sequence[int] = (),
        *,
        think: Think | None = None,
        tools: Sequence[str] = (),
    ) -> int:
        """The estimated number of tokens of a conversation."""
        return sum(self.count_tokens(one.text) + AROUND for one in messages) + len(begun)

    def text_of(self, tokens: Sequence[int], think: Think | None = None) -> str:
        """The text of tokens; empty if one of them is unknown here."""
        known = [self._texts.get(token) for token in tokens]
        return "" if None in known else "".join(text for text in known if text)

    def tokens_of(self, text: str, think: Think | None = None) -> list[Token]:
        """A text as the beginning of a reply: a single token."""
        return [Token(self._number(text), text, None, (), 0.0)] if text else []

    def _number(self, text: str) -> int:
        number = zlib.crc32(text.encode(errors="surrogatepass"))
        while self._texts.setdefault(number, text) != text:
            number = (number + 1) % 2**32
        return number

    def encode_marked(self, text: str) -> list[int] | None:
        """None: only the server knows its control tokens."""
        return None

    def render_chat(self, messages: Sequence[Message]) -> str:
        """Raise GenerationError: the template is on the server."""
        raise GenerationError(f"only the server knows the chat template of {self.model.name}")

    # Requests

    def chat(self, messages: Sequence[Message], options: Options, begun: Sequence[int] = ()) -> Deltas:
        """The reply to a conversation, continuing from the tokens `begun`."""
        if not self.can_chat:
            raise GenerationError(f"{self.model.name} only continues text there and cannot chat")
        if begun and not self.text_of(begun):
            raise GenerationError("these tokens are from an earlier start; ask again")
        if options.tools and not self.knows_tools:
            raise GenerationError(f"{self.model.name} does not support tools, says its server; ask without them")
        check_together(options)
        beginning = self.text_of(begun)
        request = self.dialect.chat(self.model.name, messages, options, beginning)
        sent = sum(len(one.text.encode(errors="replace")) for one in messages)
        deltas = self._stream(request, options, sent, beginning, thinks=True)
        return self._explain_tools(deltas) if options.tools else deltas

    def _explain_tools(self, deltas: Deltas) -> Deltas:
        """The deltas; if the server refuses tools, the error gets a hint."""
        try:
            yield from deltas
        except Refused as error:
            if "tool" not in error.said.lower():
                raise
            raise Refused(f"{error}; {HINT}", error.status, error.said) from error

    def complete(self, text: str | Sequence[int], options: Options) -> Deltas:
        """The continuation of a text, or of tokens."""
        text = text if isinstance(text, str) else self.text_of(text)
        if not text:
            raise GenerationError("the prompt is empty; give the model some text")
        check_together(options)
        request = self.dialect.complete(self.model.name, text, options)
        return self._stream(request, options, len(text.encode(errors="replace")))

    def infill(self, prefix: str, suffix: str, options: Options, around: Around = None) -> Deltas:
        """The text between prefix and suffix, by default up to 64 tokens.

        Without a suffix, or if the server cannot fill gaps, the prefix is continued.
        """
        options = replace(options, max_tokens=options.max_tokens or LINE_TOKENS)
        if not (self.can_infill and suffix):
            return self.complete(prefix, options)
        check_together(options)
        request = self.dialect.infill(self.model.name, prefix, suffix, options)
        sent = len(f"{prefix}{suffix}".encode(errors="replace"))
        return self._or_go_on(self._stream(request, options, sent), prefix, options)

    def _or_go_on(self, deltas: Deltas, prefix: str, options: Options) -> Deltas:
        """The deltas of an infill; the continuation of the prefix if the server refuses to fill gaps."""
        try:
            yield from deltas
        except Refused as error:
            if error.status not in (400, 404, 501):
                raise
            self.can_infill = False
            yield from self.complete(prefix, options)

    def find_lines(
        self, prefix: str, suffix: str, around: Around = None, *, width: int = 4, count: int = 4, wanted: Wanted = yes
    ) -> list[Line] | None:
        """The likeliest rest of the line; a list of one, where a local model gives several."""
        from chatapp.generation.decoding.lines import Line

        asked = Options(temperature=0.0, top_k=0, top_p=1.0, max_tokens=LINE_TOKENS, stop=("\n",))
        if self.dialect.tells_logprobs:
            asked = replace(asked, logprobs=0)
        said, logprob = "", 0.0
        with closing(self.infill(prefix, suffix, asked, around)) as deltas:
            for delta in deltas:
                if not wanted():
                    return None
                said += delta.text
                logprob += sum(UNTOLD if token.logprob is None else token.logprob for token in delta.tokens)
        text = said.partition("\n")[0]
        return [Line(text, (self._number(text),), logprob)] if text.strip() else []

    def score_lines(self, *texts: object, **more: object) -> list[float] | None:
        """None: servers do not score a text without generating it."""
        return None

    def next_token(self, *prompt: object, **more: object) -> NoReturn:
        """Raise GenerationError: servers give no logits, and nothing is sent before the user sends it."""
        host = self.connection.remote.host
        raise GenerationError(f"{host} cannot preview the next token; use a model on this machine")

    # Responses

    def _stream(
        self, request: Request, options: Options, sent: int, begun: str = "", *, thinks: bool = False
    ) -> Deltas:
        """The deltas of a request; a server that cannot return several completions gets one request for each."""
        started = perf_counter()
        stream = Stream(started, started, sent)
        rounds, names = 1 if self.dialect.several else options.n, read_names(options.tools)
        try:
            for place in range(rounds):
                numbers = [place] if rounds > 1 else list(range(options.n))
                rows = [Row(index, begun, Channels() if thinks else None, Calls(names)) for index in numbers]
                stream.rows += rows
                yield from self._round(self._nth(request, place), stream, rows)
            yield from self._end(stream, options)
        finally:
            self.last_usage = self._sum_up(stream, options)

    def _nth(self, request: Request, place: int) -> Request:
        """The request for the next completion, with the seed advanced, or it would be the same again."""
        for holder in (request.body, request.body.get("options"), request.body.get("parameters")):
            if place and isinstance(holder, dict) and "seed" in holder:
                holder["seed"] += 1
        return request

    def _round(self, request: Request, stream: Stream, rows: list[Row]) -> Deltas:
        """The deltas of one request; RemoteError if its end mark is missing."""
        ended, quiet = False, 0
        stream.last, stream.written = perf_counter(), stream.counts.completion or 0
        with closing(self.connection.stream(request.path, request.body, self.dialect.kind)) as events:
            for event in events:
                if event is None:
                    quiet += 1
                    if ended or (quiet > PATIENCE and all(row.finish_reason for row in rows)):
                        break  # this server closes neither the stream nor the connection
                    yield WAITING
                    continue
                quiet = 0
                for chunk in self._parse(event.data):
                    if chunk.counts:
                        stream.take(chunk.counts)
                    ended = ended or chunk.is_last
                    if chunk.index >= len(rows):
                        raise RemoteError("the server sent an answer that was not requested; disconnected")
                    row = rows[chunk.index]
                    row.finish_reason = row.finish_reason or chunk.finish_reason
                    for part in chunk.calls:
                        row.calls.add(part)
                    if chunk.text or chunk.tokens or chunk.calls:
                        yield from self._tell(stream, row, chunk, event.seconds)
        whole = all(row.finish_reason for row in rows)
        if not (ended or whole or (self.dialect.ends_silently and stream.time_to_first_token)):
            raise RemoteError(
                f"{self.connection.remote.host} ended the stream without an end mark; the text may be cut off"
            )

    def _parse(self, data: str) -> list[Chunk]:
        try:
            return list(self.dialect.parse(data))
        except RemoteError as error:
            said = str(error)
        raise RemoteError(self.connection.without_key(said))  # outside `except`: the original error may contain the key

    def _tell(self, stream: Stream, row: Row, chunk: Chunk, arrived: float) -> Deltas:
        """The deltas for one event of a completion."""
        text = chunk.text
        if row.channels and chunk.channel == "thinking" and not row.thinks:
            text, row.thinks = THINK[0] + text, True
        elif row.channels and chunk.channel == "text" and row.thinks and text:
            text, row.thinks = THINK[1] + text, False
        seconds = max(0.0, arrived - stream.last)
        stream.last = arrived
        tokens = self._tokens(chunk, seconds)
        timings = Timings(decode=seconds)
        if not stream.time_to_first_token:
            stream.time_to_first_token = max(1e-9, arrived - stream.started)
            tokens = (replace(tokens[0], seconds=stream.time_to_first_token), *tokens[1:])
            timings = Timings(stream.time_to_first_token)
        stream.latencies += [token.seconds for token in tokens[not row.tokens :]]
        row.tokens += len(tokens)
        parts = row.channels.add(text) if row.channels else []
        # Channels holds back text that may become a thinking mark; without channels, everything is text.
        whole: tuple[Channel, str] = (row.channels.current, "") if row.channels else ("text", text)
        *before, (channel, part) = parts or [whole]
        for other, told in before:
            yield Delta(told, row.index, channel=other)
        yield Delta(part, row.index, tokens, timings=timings, channel=channel)

    def _tokens(self, chunk: Chunk, seconds: float) -> tuple[Token, ...]:
        """The tokens of an event, sharing its time; a single one if the server does not report tokens."""
        if not chunk.tokens:
            return (Token(self._number(chunk.text), chunk.text, None, (), seconds),)
        spelt = "".join(token.text for token in chunk.tokens) == chunk.text
        last = len(chunk.tokens) - 1
        return tuple(
            Token(
                self._number(token.text),
                token.text if spelt else chunk.text * (place == last),
                token.logprob,
                tuple(Alternative(self._number(text), text, logprob) for text, logprob in token.alternatives),
                seconds / len(chunk.tokens),
            )
            for place, token in enumerate(chunk.tokens)
        )

    def _end(self, stream: Stream, options: Options) -> Deltas:
        """The final delta of each completion; the very last one carries the usage."""
        for row in stream.rows:
            if row.channels:
                held = row.channels.add(THINK[1]) if row.thinks else []
                for channel, text in [*held, *row.channels.flush()]:
                    yield Delta(text, row.index, channel=channel)
            if calls := row.calls.spell():
                yield Delta(calls, row.index)
            usage = self._sum_up(stream, options) if row is stream.rows[-1] else None
            yield Delta(index=row.index, finish_reason=row.finish_reason or "stop", usage=usage)

    def _sum_up(self, stream: Stream, options: Options) -> Usage:
        """The usage: the server's counts, or else our own, and times by the local clock."""
        counts, latencies, place = stream.counts, stream.latencies, self.placement
        if counts.prompt and stream.sent > 256:
            self._bytes_per_token = min(16.0, max(1.0, stream.sent / counts.prompt))
        spent = sum(latencies)
        arrived = sum(row.tokens for row in stream.rows)
        return Usage(
            prompt_tokens=counts.prompt if counts.prompt is not None else round(stream.sent / self._bytes_per_token),
            cached_tokens=counts.cached or 0,
            completion_tokens=arrived if counts.completion is None else counts.completion,
            seed=options.seed or 0,
            time_to_first_token=stream.time_to_first_token,
            tokens_per_second=len(latencies) / spent if spent else 0.0,
            p50=percentile(latencies, 50),
            p95=percentile(latencies, 95),
            p99=percentile(latencies, 99),
            first_token=latencies[0] if latencies else 0.0,
            last_token=latencies[-1] if latencies else 0.0,
            prefill_seconds=counts.prefill if counts.prefill is not None else stream.time_to_first_token,
            load_seconds=self.load_seconds,
            lowering_seconds=0.0,
            peak_memory=peak_memory(),
            backend=place.backend,
            device=place.device,
            precision=place.precision,
            latencies=tuple(latencies),
        )
