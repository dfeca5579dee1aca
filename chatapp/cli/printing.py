"""Prints replies as they arrive; Ctrl+C stops them."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from shutil import get_terminal_size
from threading import Event
from types import FrameType
from typing import Any, Self

from chatapp.generation import BeamEvent, Delta, Reply, Token, Usage
from chatapp.generation.text.rendering import RENDERER
from chatapp.generation.text.thinking import split
from chatapp.text.printable import printable
from chatapp.text.units import cells, milliseconds, rate, size


@dataclass(frozen=True)
class Form:
    """How an answer is printed."""

    json: bool = False
    """One line of JSON per completion."""
    raw: bool = False
    """Whether control characters stay as the model wrote them."""
    extract: bool = False
    """The first block of code, once it is all there, and nothing else."""
    logprobs: bool = False
    thinking: bool = False
    """Whether thinking is printed even if standard error is not a terminal."""
    beams: bool = False
    """Whether the events of a beam search are printed on standard error."""
    stats: str | None = None
    """`text`, `json` or None."""


@contextmanager
def stoppable() -> Iterator[Event]:
    """Inside, the first Ctrl+C sets the event, and a second one raises KeyboardInterrupt.

    The first one also interrupts a chat template that is being rendered.
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


class Printout:
    """Prints `count` replies one after another, the first one as it arrives, until Ctrl+C.

    The thinking of the first goes to standard error: dimmed on a terminal, otherwise only if asked for.
    """

    def __init__(self, count: int, form: Form) -> None:
        self.form, self.replies = form, [Reply() for _ in range(count)]
        self.interrupted = False
        self.missing = False
        """Whether a block of code was wanted, and an answer has none."""
        self.dim = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
        self.thinking_wanted = sys.stderr.isatty() or form.thinking
        self.thinking_open = False
        """Whether the last line of thinking has no line end yet."""
        self.counting = can_redraw() and sys.stdout.isatty()
        self.counted = False
        """Whether the last line shows prompt progress."""
        self.introduced = 0
        """How many replies have their heading."""
        self.signals = ExitStack()

    def __enter__(self) -> Self:
        self.stop = self.signals.enter_context(stoppable())
        return self

    def __exit__(self, *_: object) -> None:
        with self.signals:
            self.count(None)
            self.end_thinking()

    def add(self, delta: Delta) -> bool:
        """Collect a delta, and print it if it belongs to the first reply; returns whether Ctrl+C was pressed."""
        self.replies[delta.index].add(delta)
        self.count(delta.reading)
        for event in delta.beams if self.form.beams else ():
            print(json.dumps(asdict(event)) if self.form.json else describe_event(event), file=sys.stderr, flush=True)
        if delta.index == 0 and delta.text and not self.form.json:
            self.introduce(0)
            if delta.channel == "thinking":
                self.think(delta.text)
            elif not self.form.extract:
                self.end_thinking()
                write(delta.text, self.form)
        self.interrupted = self.stop.is_set()
        return self.interrupted

    def count(self, reading: tuple[int, int] | None) -> None:
        """Show how much of a long prompt is read, on a line that is erased by the next output."""
        if self.counting and reading:
            redraw(f"reading the prompt: {reading[0]:,} of {reading[1]:,} tokens")
        elif self.counted:
            redraw("")
        self.counted = self.counting and reading is not None

    def introduce(self, index: int) -> None:
        """Print the heading of one of several replies, once."""
        if index == self.introduced:
            self.introduced += 1
            if len(self.replies) > 1:
                score = self.replies[index].score
                told = "" if score is None else f", score {score:.3f}"
                note(f"completion {index + 1} of {len(self.replies)}{told}")

    def think(self, text: str) -> None:
        """Print a piece of the first reply's thinking."""
        if self.thinking_wanted:
            text = printable(text)
            print(f"\x1b[2m{text}\x1b[22m" if self.dim else text, end="", file=sys.stderr, flush=True)
            self.thinking_open = not text.endswith("\n")

    def end_thinking(self) -> None:
        """End the last line of thinking, so that the answer begins on a new one."""
        if self.thinking_open:
            print(file=sys.stderr, flush=True)
        self.thinking_open = False

    def finish(self, usage: Usage | None) -> None:
        """Print the other replies, and whatever was asked for besides the text."""
        for index, reply in enumerate(self.replies):
            if self.form.json:
                print(as_json(index, reply, logprobs=self.form.logprobs), flush=True)
                continue
            self.introduce(index)
            text = self.extract(reply.text) if self.form.extract else reply.text
            if index or self.form.extract:
                write(text, self.form)
            if text or not self.form.extract:
                end_line(text, self.form)
            if reply.valid is False:
                cut = reply.finish_reason == "length"
                note("Not valid: it was cut off. Raise --max-tokens." if cut else "Not valid: it is incomplete.")
            if self.form.logprobs:
                print_logprobs(reply.tokens)
        if self.interrupted:
            note("Interrupted.")
        if self.form.stats and usage:
            told = json.dumps(usage.as_dict()) if self.form.stats == "json" else describe(usage)
            print(told, file=sys.stderr, flush=True)

    def extract(self, text: str) -> str:
        """The first block of code in a text; where there is none, nothing, and the text goes to standard error."""
        from chatapp.text.clipboard import code_blocks

        blocks = code_blocks(text)
        if not blocks:
            self.missing = True
            note(f"No code block in the answer:\n{text}")
        return blocks[0] if blocks else ""


def can_redraw() -> bool:
    """Whether standard error is a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def redraw(text: str) -> None:
    """Overwrite the current line; of a text wider than the terminal, the end is shown."""
    room = get_terminal_size().columns - 1
    while cells(text) > room:
        text = text[1:]
    print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def describe_event(event: BeamEvent) -> str:
    """A line about a change in the beam tree."""
    return f"{event.change:8} {event.beam:5} from {event.parent:<5} {event.score:9.3f}  {quote(event.text)}"


def quote(text: str) -> str:
    """Text that a model wrote, in quotes."""
    return json.dumps(printable(text), ensure_ascii=False)


def print_json(facts: object) -> None:
    """Print facts as JSON; dataclasses become objects, other unknown types text."""

    def tell(value: Any) -> Any:  # Any: JSON
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)

    print(json.dumps(facts, indent=2, default=tell))


def as_json(index: int, reply: Reply, *, logprobs: bool = False) -> str:
    """A reply as one line of JSON."""
    facts: dict[str, object] = {"index": index, "text": reply.text, "finish_reason": reply.finish_reason}
    if reply.score is not None:
        facts["score"] = reply.score
    if reply.valid is not None:
        facts["valid"] = reply.valid
    if reply.thinking:
        facts["thinking"] = split(reply.thinking).thinking
    return json.dumps(facts | ({"tokens": [asdict(token) for token in reply.tokens]} if logprobs else {}))


def describe(usage: Usage) -> str:
    """The usage in several lines of text."""
    lowered = f", lowered in {milliseconds(usage.lowering_seconds)}" if usage.lowering_seconds else ""
    lines = {
        "tokens": f"{usage.prompt_tokens} read, {usage.cached_tokens} of them cached; "
        f"{usage.completion_tokens} written; seed {usage.seed}",
        "speed": f"{rate(usage.tokens_per_second)} tokens/s; first after {milliseconds(usage.time_to_first_token)}, "
        f"{milliseconds(usage.prefill_seconds)} of it prefill",
        "latency": f"p50 {milliseconds(usage.p50)}, p95 {milliseconds(usage.p95)}, p99 {milliseconds(usage.p99)}; "
        f"first {milliseconds(usage.first_token)}, last {milliseconds(usage.last_token)}",
        "guesses": describe_guesses(usage),
        "model": f"loaded in {milliseconds(usage.load_seconds)}{lowered}; {size(usage.peak_memory)} peak memory; "
        f"{usage.backend} {usage.device} {usage.precision}",
    }
    return "\n".join(f"{name:8} {line}" for name, line in lines.items() if line)


def describe_guesses(usage: Usage) -> str:
    """How speculative decoding fared; empty if nothing was drafted."""
    if not usage.drafted:
        return ""
    gain = usage.speculation_gain
    quick = f"; {gain:.2f} times as fast as the steps without guesses" if gain else ""
    return f"{usage.accepted} of {usage.drafted} right{quick}"


def print_logprobs(tokens: Sequence[Token]) -> None:
    """Print each token with its log-probability and its alternatives."""
    for token in tokens:
        others = "  ".join(f"{quote(other.text)} {other.logprob:.2f}" for other in token.alternatives)
        print(f"{token.logprob or 0.0:8.2f}  {quote(token.text):16}  {others}".rstrip(), file=sys.stderr)


def write(text: str, form: Form) -> None:
    """Print a piece of an answer at once."""
    sys.stdout.write(text if form.raw else printable(text))
    sys.stdout.flush()


def end_line(text: str, form: Form) -> None:
    """End the last line of an answer, except in raw mode."""
    if not form.raw and not text.endswith("\n"):
        write("\n", form)


def note(text: str) -> None:
    """Print a line to standard error, with control characters replaced, since names and errors may be foreign."""
    sys.stdout.flush()
    print(printable(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print a warning to standard error."""
    note(f"Warning: {text}")
