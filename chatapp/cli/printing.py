"""Take an answer from the model as it arrives, print it, and let Ctrl+C stop it."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, cast

from chatapp.generation import Delta, Reply, Token, Usage
from chatapp.generation.text.rendering import RENDERER
from chatapp.generation.text.thinking import split
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size

if TYPE_CHECKING:
    from chatapp.generation import Engine

PAUSE = 0.01
"""Seconds between two outputs of an answer: each wakes its reader, who takes a core from the model."""


@dataclass(frozen=True)
class Form:
    """How an answer is printed."""

    json: bool = False
    """One JSON object per completion, in a line."""
    raw: bool = False
    """Control characters as the model wrote them."""
    logprobs: bool = False
    thinking: bool = False
    """What the model thinks on standard error, where that is no terminal either."""
    stats: str | None = None
    """text, json, or nothing."""


@contextmanager
def stoppable() -> Iterator[Event]:
    """Inside, the first Ctrl+C sets the event and a second one raises KeyboardInterrupt.

    So does the first while a chat template is rendered.
    """
    stop = Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        RENDERER.interrupt()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def collect(
    deltas: Iterator[Delta], count: int, until: Callable[[Delta], object] | None = None
) -> tuple[list[Reply], bool]:
    """The `count` replies of a turn, told to `until` as they come, and whether Ctrl+C ended them."""
    replies = [Reply() for _ in range(count)]
    stream = cast(Generator[Delta], deltas)  # it can be closed: that is how a turn is cancelled
    with stoppable() as stop, closing(stream):
        for delta in stream:
            replies[delta.index].add(delta)
            if until:
                until(delta)
            if stop.is_set():
                return replies, True
    return replies, False


def print_answer(engine: "Engine", deltas: Iterator[Delta], count: int, form: Form) -> bool:
    """Print `count` replies one after the other, the first as it arrives; whether Ctrl+C ended them."""
    due, waiting, thinking = 0.0, list[str](), Thinking(form)

    def first(delta: Delta) -> None:
        nonlocal due
        if delta.channel == "thinking":
            thinking.tell(delta)
        elif delta.index == 0:
            thinking.end()
            waiting.append(delta.text)
        if (now := time.monotonic()) >= due:
            due = now + PAUSE
            print_waiting()

    def print_waiting() -> None:
        write("".join(waiting), form)
        waiting.clear()

    if count > 1 and not form.json:
        note(f"completion 1 of {count}")
    try:
        replies, interrupted = collect(deltas, count, None if form.json else first)
    finally:
        thinking.end()
        print_waiting()
    for index, reply in enumerate(replies):
        if form.json:
            print(as_json(index, reply, logprobs=form.logprobs), flush=True)
            continue
        if index:
            note(f"completion {index + 1} of {count}")
            write(reply.text, form)
        end_line(reply.text, form)
        if form.logprobs:
            print_logprobs(reply.tokens)
    if interrupted:
        note("Interrupted.")
    if form.stats and engine.last_usage:
        print_stats(engine.last_usage, form.stats)
    return interrupted


class Thinking:
    """Prints what the first of the replies thinks, on standard error: dim in a terminal, elsewhere if asked for."""

    def __init__(self, form: Form) -> None:
        self.dim = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
        self.wanted = (sys.stderr.isatty() or form.thinking) and not form.json
        self.told = False

    def tell(self, delta: Delta) -> None:
        """Print a part of it at once."""
        if self.wanted and delta.index == 0 and delta.text:
            text = printable(delta.text)
            print(f"\x1b[2m{text}\x1b[22m" if self.dim else text, end="", file=sys.stderr, flush=True)
            self.told = not text.endswith("\n")

    def end(self) -> None:
        """Begin a new line, where the answer follows in the same terminal."""
        if self.told:
            print(file=sys.stderr, flush=True)
        self.told = False


def as_json(index: int, reply: Reply, *, logprobs: bool = False) -> str:
    """A reply as one line of JSON."""
    facts = {"index": index, "text": reply.text, "finish_reason": reply.finish_reason}
    if reply.thinking:
        facts["thinking"] = split(reply.thinking).thinking
    return json.dumps(facts | ({"tokens": [asdict(token) for token in reply.tokens]} if logprobs else {}))


def print_stats(usage: Usage, form: str) -> None:
    """Print the usage as `form`, text or json, says."""
    print(json.dumps(usage.as_dict()) if form == "json" else describe(usage), file=sys.stderr, flush=True)


def describe(usage: Usage) -> str:
    """The usage in four lines."""
    lowered = f", lowered in {milliseconds(usage.lowering_seconds)}" if usage.lowering_seconds else ""
    lines = {
        "tokens": f"{usage.prompt_tokens} read, {usage.cached_tokens} of them cached; "
        f"{usage.completion_tokens} written; seed {usage.seed}",
        "speed": f"{usage.tokens_per_second:.1f} tokens/s; first after {milliseconds(usage.time_to_first_token)}, "
        f"{milliseconds(usage.prefill_seconds)} of it prefill",
        "latency": f"p50 {milliseconds(usage.p50)}, p95 {milliseconds(usage.p95)}, p99 {milliseconds(usage.p99)}; "
        f"first {milliseconds(usage.first_token)}, last {milliseconds(usage.last_token)}",
        "model": f"loaded in {milliseconds(usage.load_seconds)}{lowered}; {size(usage.peak_memory)} memory at most; "
        f"{usage.backend} {usage.device} {usage.precision}",
    }
    return "\n".join(f"{name:8} {line}" for name, line in lines.items())


def print_logprobs(tokens: Sequence[Token]) -> None:
    """Print each token with its log-probability and the alternatives in its place."""

    def quoted(text: str) -> str:
        return json.dumps(printable(text), ensure_ascii=False)

    for token in tokens:
        others = "  ".join(f"{quoted(other.text)} {other.logprob:.2f}" for other in token.alternatives)
        print(f"{token.logprob or 0.0:8.2f}  {quoted(token.text):16}  {others}".rstrip(), file=sys.stderr)


def write(text: str, form: Form) -> None:
    """Print a part of an answer at once."""
    sys.stdout.write(text if form.raw else printable(text))
    sys.stdout.flush()


def end_line(text: str, form: Form) -> None:
    """End the last line of an answer, unless it has to stay as the model wrote it."""
    if not form.raw and not text.endswith("\n"):
        write("\n", form)


def note(text: str) -> None:
    """Say something on standard error, in which names and errors may have been written by anyone."""
    sys.stdout.flush()
    print(printable(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Say on standard error that something does not go as it should."""
    note(f"Warning: {text}")
