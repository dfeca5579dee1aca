"""Print replies as they arrive, and let Ctrl+C stop them."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Event
from types import FrameType

from chatapp.generation import Delta, Reply, Token, Usage
from chatapp.generation.text.rendering import RENDERER
from chatapp.generation.text.thinking import split
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size


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


class FirstReply:
    """Prints the first of the replies as it arrives: the text on standard output, and on standard error what it thinks.

    What it thinks is dim in a terminal, and elsewhere printed only if asked for.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.dim = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
        self.thinking_wanted = sys.stderr.isatty() or form.thinking
        self.thinking_open = False
        """Whether the last line of what it thinks has not ended."""

    def __enter__(self) -> "FirstReply":
        return self

    def __exit__(self, *_: object) -> None:
        self.end_thinking()

    def add(self, delta: Delta) -> None:
        """Print a part of it; the engine tells what comes quickly together, for each wakes the reader of a pipe."""
        if self.form.json:
            return
        if delta.index == 0 and delta.channel == "thinking":
            self.think(delta.text)
        elif delta.index == 0 and delta.text:
            self.end_thinking()
            write(delta.text, self.form)

    def think(self, text: str) -> None:
        """Print a part of what it thinks at once."""
        if self.thinking_wanted and text:
            text = printable(text)
            print(f"\x1b[2m{text}\x1b[22m" if self.dim else text, end="", file=sys.stderr, flush=True)
            self.thinking_open = not text.endswith("\n")

    def end_thinking(self) -> None:
        """Begin a new line, where the text follows in the same terminal."""
        if self.thinking_open:
            print(file=sys.stderr, flush=True)
        self.thinking_open = False


def print_reply(index: int, reply: Reply, form: Form) -> None:
    """Print what is still to be printed of a whole reply; of the first, the text has been."""
    if form.json:
        return print(as_json(index, reply, logprobs=form.logprobs), flush=True)
    if index:
        write(reply.text, form)
    end_line(reply.text, form)
    if form.logprobs:
        print_logprobs(reply.tokens)


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
