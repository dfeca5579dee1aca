"""A stand-in for the engine that writes a given text at a given pace, blocking as a model does."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event

from chatapp.generation import Delta, FinishReason, Message, Options, PromptTooLong, Timings, Token, Usage
from chatapp.generation.delta import percentile
from chatapp.tui.app import ChatApp
from chatapp.tui.opened import Opened
from chatapp.tui.opening import Open

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
PACE = (0.0125, 0.0131, 0.0119, 0.0127, 0.0174, 0.0122, 0.0125, 0.0311, 0.0128, 0.0121)


@dataclass(frozen=True)
class Placement:
    """Where it pretends to run."""

    backend: str = "onnx"
    device: str = "cpu"
    precision: str = "int8"


@dataclass
class ScriptedEngine:
    """Meets the engine's contract; its latencies are told, not measured, so that screens can be compared."""

    text: str = FIBONACCI
    delay: float = 0.0
    """Seconds it blocks for each token."""
    pause_after: int | None = None
    """The number of tokens after which it waits for `go`."""
    fail_after: int | None = None
    """The number of tokens after which the runtime breaks."""
    context_length: int = 1024
    defaults: Options = Options()
    can_chat: bool = False
    can_infill: bool = True
    placement: Placement = Placement()
    go: Event = field(default_factory=Event)
    asked: list[str] = field(default_factory=list)
    options: list[Options] = field(default_factory=list)
    closed: int = 0
    """Turns that ended, one way or the other."""
    busy: bool = False

    def count_tokens(self, text: str) -> int:
        return len(pieces(text))

    def chat(self, messages: Sequence[Message], options: Options) -> Iterator[Delta]:
        return self.write("\n".join(message.text for message in messages), options)

    def complete(self, text: str, options: Options) -> Iterator[Delta]:
        return self.write(text, options)

    def infill(self, prefix: str, suffix: str, options: Options) -> Iterator[Delta]:
        return self.write(f"{prefix}<gap>{suffix}", options)

    def write(self, prompt: str, options: Options) -> Iterator[Delta]:
        assert not self.busy, "one turn at a time"
        self.busy = True
        self.asked.append(prompt)
        self.options.append(options)
        try:
            yield from self.deltas(self.count_tokens(prompt), options)
        finally:
            self.busy = False
            self.closed += 1

    def deltas(self, prompt_tokens: int, options: Options) -> Iterator[Delta]:
        room = self.context_length - prompt_tokens
        if room < 0:
            raise PromptTooLong(prompt_tokens, self.context_length)
        tokens = pieces(self.text)
        wanted = min(len(tokens), room, options.max_tokens or len(tokens))
        for i, token in enumerate(tokens[:wanted]):
            if i == self.pause_after:
                self.go.wait(30)
            if i == self.fail_after:
                raise RuntimeError("the runtime broke")
            time.sleep(self.delay)
            seconds = PACE[i % len(PACE)]
            timings = Timings(0.0 if i else 0.021, seconds, 0.0002, 0.0)
            last = i == wanted - 1
            usage = summary(prompt_tokens, [PACE[j % len(PACE)] for j in range(1, wanted)]) if last else None
            reason: FinishReason | None = ("stop" if wanted == len(tokens) else "length") if last else None
            yield Delta(token, 0, (Token(i, token, None, (), seconds),), reason, timings, usage)


def pieces(text: str) -> list[str]:
    """The text in pieces of about the size of a token."""
    return re.findall(r"\s*\S{1,4}|\s+$", text)


def summary(prompt_tokens: int, latencies: list[float]) -> Usage:
    """The usage of a turn with these latencies."""
    p50, p95, p99 = (percentile(latencies, percent) for percent in (50, 95, 99))
    first, last = (latencies[0], latencies[-1]) if latencies else (0.0, 0.0)
    speed = len(latencies) / sum(latencies) if latencies else 0.0
    return Usage(
        prompt_tokens, 0, len(latencies) + 1, 7, 0.0337, speed, p50, p95, p99, first, last, 0.021, 0.31, 0.0,
        123_000_000, "onnx", "cpu", "int8", tuple(latencies),
    )  # fmt: skip


def opener(engine: ScriptedEngine) -> Open:
    """What ChatApp is given to open this engine."""
    return lambda on_progress, warn: Opened(engine, "chatty" if engine.can_chat else "builtin", 25_300_000, 0.31)


if __name__ == "__main__":
    if "chat" in sys.argv:
        ChatApp(opener(ScriptedEngine(ANSWER, delay=0.02, can_chat=True)), model="chatty").run()
    else:
        ChatApp(opener(ScriptedEngine(FIBONACCI * 20, delay=0.02))).run()
