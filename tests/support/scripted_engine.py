"""A stand-in for the engine that writes a given text at a given pace, blocking as a model does."""

import math
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event

import numpy as np

import backends
from chatapp.generation import (
    Alternative,
    Delta,
    FinishReason,
    GenerationError,
    Message,
    Options,
    PromptTooLong,
    Surroundings,
    Timings,
    Token,
    Usage,
)
from chatapp.generation.decoding.lines import Line
from chatapp.generation.decoding.preview import Distribution
from chatapp.generation.delta import percentile
from chatapp.generation.text.thinking import Channels, Think
from chatapp.workspace import Opened
from support.patience import PATIENCE

FIBONACCI = '''
    """Return the n-th Fibonacci number."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def primes(limit):
    """Yield the primes below a limit, smallest first."""
    sieve = bytearray([1]) * limit
    for number in range(2, limit):
        if sieve[number]:
            yield number
            sieve[number * number :: number] = bytes(len(sieve[number * number :: number]))
'''
ANSWER = """Prefill reads the weights **once** for all prompt tokens; decoding reads them *per token*.

```python
def decode(session, token):
    logits = session.forward([token])
    return sample(logits)
```

- prefill is bound by arithmetic
- decoding is bound by memory
"""
Open = Callable[[Callable[[str, float], None], Callable[[str], object]], Opened]
"""Opens a model; is given what to tell its progress and a fallback to."""
PACE = (0.0125, 0.0131, 0.0119, 0.0127, 0.0174, 0.0122, 0.0125, 0.0311, 0.0128, 0.0121)


@dataclass(frozen=True)
class Placement(backends.Placement):
    """Where it pretends to run."""

    backend: str = "onnx"
    device: str = "cpu"
    precision: str = "int8"


@dataclass
class ScriptedEngine:
    """Meets the engine's contract; its latencies are told, not measured, so that screens can be compared."""

    text: str = FIBONACCI
    texts: Sequence[str] = ()
    """What each of n completions says, if not all say `text`."""
    turns: list[str] = field(default_factory=list)
    """What the next turns say, one after the other, before it is `text` again."""
    delay: float = 0.0
    """Seconds it blocks for each token."""
    pause_after: int | None = None
    """The number of tokens (of each completion) after which it waits for `go`."""
    fail_after: int | None = None
    """The number of tokens after which the runtime breaks."""
    context_length: int = 1024
    cached_tokens: int = 0
    """How many of each prompt's tokens it pretends to have read before."""
    defaults: Options = Options()
    can_chat: bool = False
    takes_system: bool = True
    """Whether its chat template has a place for a system prompt."""
    can_infill: bool = True
    knows_tools: bool = True
    sees_files: bool = False
    thinking_choices: tuple[Think, ...] = ()
    placement: Placement = Placement()
    origin: dict[str, str] = field(default_factory=lambda: {"digest": "sha256-0", "signature": "scripted 1"})
    go: Event = field(default_factory=Event)
    asked: list[str] = field(default_factory=list)
    """The prompts so far: the texts of a conversation's messages, and of the reply's beginning, one a line."""
    chats: list[list[Message]] = field(default_factory=list)
    """The conversations so far."""
    begun: list[tuple[int, ...]] = field(default_factory=list)
    """The tokens that the replies to these began with."""
    options: list[Options] = field(default_factory=list)
    closed: int = 0
    """Turns that ended, one way or the other."""
    busy: bool = False
    paused: bool = False
    last_usage: Usage | None = None
    vocabulary: list[str] = field(default_factory=list)
    """The tokens known so far, each at the place of its id."""

    def count_tokens(self, text: str) -> int:
        return len(pieces(text))

    def count_prompt(self, text: str | Sequence[int], options: Options) -> int:
        return self.count_tokens(text) if isinstance(text, str) else len(text)

    def count_chat(
        self,
        messages: Sequence[Message],
        begun: Sequence[int] = (),
        *,
        think: Think | None = None,
        tools: Sequence[str] = (),
    ) -> int:
        if not self.takes_system and any(message.role == "system" for message in messages):
            raise GenerationError("the model's chat template refuses this conversation: no system prompts")
        offered = sum(map(self.count_tokens, tools))
        return sum(self.count_tokens(message.text) for message in messages) + len(begun) + offered

    def next_token(
        self,
        prompt: Sequence[Message] | str,
        wanted: Callable[[], bool] = lambda: True,
        *,
        file_start: bool = False,
    ) -> Distribution | None:
        return Distribution(np.linspace(4, -4, 1000, dtype=np.float32), (), lambda token: f"word{token}")

    def encode_marked(self, text: str) -> list[int] | None:
        return [self.id(piece) for piece in pieces(text)] if "<|" in text else None

    def render_chat(self, messages: Sequence[Message], think: Think | None = None) -> str:
        return "".join(f"<|{message.role}|>{message.text}\n" for message in messages) + "<|assistant|>"

    def text_of(self, tokens: Sequence[int], think: Think | None = None) -> str:
        return "".join(self.vocabulary[token] for token in tokens)

    def tokens_of(self, text: str, think: Think | None = None) -> list[Token]:
        return [Token(self.id(piece), piece, None, (), 0.0) for piece in pieces(text)]

    def chat(self, messages: Sequence[Message], options: Options, begun: Sequence[int] = ()) -> Generator[Delta]:
        beginning = self.text_of(begun)
        prompt = "\n".join([*(message.text for message in messages), *([beginning] if begun else [])])
        tokens = self.check(self.count_chat(messages, begun))
        self.chats.append(list(messages))
        self.begun.append(tuple(begun))
        return self.write(prompt, options, tokens, len(begun))

    def complete(self, text: str | Sequence[int], options: Options) -> Generator[Delta]:
        text = text if isinstance(text, str) else self.text_of(text)
        return self.write(text, options, self.check(self.count_tokens(text)))

    def infill(
        self, prefix: str, suffix: str, options: Options, around: Surroundings | None = None
    ) -> Generator[Delta]:
        prompt = f"{prefix}<gap>{suffix}"
        return self.write(prompt, options, self.check(self.count_tokens(prompt)))

    def find_lines(
        self,
        prefix: str,
        suffix: str,
        around: Surroundings | None = None,
        *,
        width: int = 4,
        count: int = 4,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Line] | None:
        said = ""
        with closing(self.write(f"{prefix}<gap>{suffix}", Options(), 0)) as deltas:
            for delta in deltas:
                if not wanted():
                    return None
                said += delta.text
        text = said.partition("\n")[0]
        # Who says nothing is not sure of it, so that a long match in a file is worth more.
        return [Line(text, tuple(self.id(piece) for piece in pieces(text)), -1.0 if text else -2.0)]

    def score_lines(
        self,
        prefix: str,
        suffix: str,
        texts: Sequence[str],
        around: Surroundings | None = None,
        *,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[float] | None:
        said = self.text.partition("\n")[0]
        return [(-1.0 if text else -2.0) if text == said else -9.0 for text in texts] if wanted() else None

    def check(self, tokens: int) -> int:
        """Refuse a prompt that is too long, as early as the engine does."""
        if tokens > self.context_length:
            raise PromptTooLong(tokens, self.context_length)
        return tokens

    def write(self, prompt: str, options: Options, prompt_tokens: int, begun: int = 0) -> Generator[Delta]:
        assert not self.busy, "one turn at a time"
        self.busy = True
        self.asked.append(prompt)
        self.options.append(options)
        text = self.turns.pop(0) if self.turns else self.text
        texts = [self.texts[index % len(self.texts)] if self.texts else text for index in range(options.n)]
        latencies: list[float] = []
        try:
            yield from self.deltas([pieces(text)[begun:] for text in texts], options, prompt_tokens, latencies)
        finally:
            self.last_usage = summary(prompt_tokens, latencies, self.cached_tokens)
            self.busy = False
            self.closed += 1

    def deltas(
        self, rows: list[list[str]], options: Options, prompt_tokens: int, latencies: list[float]
    ) -> Generator[Delta]:
        """Every completion in turn, token by token; `latencies` grows with what each of them took."""
        limit = min(self.context_length - prompt_tokens or 1, options.max_tokens or self.context_length)
        rows = [row or [""] for row in rows]
        channels = [Channels() for _ in rows]
        wanted = [min(len(row), limit) for row in rows]
        for i in range(max(wanted)):
            if i == self.pause_after:
                self.paused = True
                self.go.wait(PATIENCE)
            if i == self.fail_after:
                raise RuntimeError("the runtime broke")
            time.sleep(self.delay)
            going = [index for index in range(len(rows)) if i < wanted[index]]
            for index in going:
                seconds = PACE[i % len(PACE)]
                latencies += [seconds] if i else []
                row, last = rows[index], i == wanted[index] - 1
                reason: FinishReason | None = ("stop" if last and i == len(row) - 1 else "length") if last else None
                over = i == max(wanted) - 1 and index == going[-1]
                usage = summary(prompt_tokens, latencies, self.cached_tokens, len(rows)) if over else None
                timings = Timings(0.0 if i else 0.021, seconds, 0.0002, 0.0)
                token = self.token(row[i], options, i, seconds)
                *before, (channel, told) = channels[index].add(row[i]) or [("text", "")]
                for other, part in before:
                    yield Delta(part, index, (), None, Timings(0.0, 0.0, 0.0, 0.0), None, other)
                valid = "".join(row) in options.choice if reason and options.constraint else None
                yield Delta(told, index, (token,), reason, timings, usage, channel, valid=valid)

    def token(self, text: str, options: Options, place: int, seconds: float) -> Token:
        """A token, with as many made-up alternatives as are asked for, itself among them."""
        if options.logprobs is None:
            return Token(self.id(text), text, None, (), seconds)
        spellings = [text, text.upper(), text.swapcase(), text[::-1], f" {text}", f"{text}s", f"{text}_", f"_{text}"]
        distinct = list(dict.fromkeys([*spellings, *(f"{text}{number}" for number in range(20))]))
        first = place % 3  # every third token is the likeliest one, the others the second and third
        distinct[0], distinct[first] = distinct[first], distinct[0]
        chances = [0.5 ** (rank + 1) for rank in range(options.logprobs)]
        likeliest = tuple(
            Alternative(self.id(spelling), spelling, math.log(chance))
            for spelling, chance in zip(distinct, chances, strict=False)
        )
        return Token(self.id(text), text, math.log(0.5 ** (distinct.index(text) + 1)), likeliest, seconds)

    def id(self, text: str) -> int:
        """The id of a token, which is known from now on."""
        if text not in self.vocabulary:
            self.vocabulary.append(text)
        return self.vocabulary.index(text)


def pieces(text: str) -> list[str]:
    """The text in pieces of about the size of a token."""
    return re.findall(r"\s*\S{1,4}|\s+$", text)


def summary(prompt_tokens: int, latencies: Sequence[float], cached_tokens: int = 0, n: int = 1) -> Usage:
    """The usage of a turn with these latencies."""
    p50, p95, p99 = (percentile(latencies, percent) for percent in (50, 95, 99))
    first, last = (latencies[0], latencies[-1]) if latencies else (0.0, 0.0)
    speed = len(latencies) / sum(latencies) if latencies else 0.0
    return Usage(
        prompt_tokens, cached_tokens, len(latencies) + n, 7, 0.0337, speed, p50, p95, p99, first, last, 0.021, 0.31,
        0.0, 123_000_000, "onnx", "cpu", "int8", tuple(latencies),
    )  # fmt: skip


def opener(engine: ScriptedEngine) -> Open:
    """What ChatApp is given to open this engine."""
    return lambda on_progress, warn: Opened(engine, "chatty" if engine.can_chat else "builtin", 25_300_000, 0.31)
