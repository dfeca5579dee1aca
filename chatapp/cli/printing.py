"""Take an answer from the model as it arrives, print it, and let Ctrl+C stop it."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from threading import Event
from types import FrameType
from typing import cast

from chatapp.cli.statistics import print_logprobs, print_stats
from chatapp.generation import Delta, Engine, FinishReason, Token
from chatapp.generation.text.rendering import RENDERER
from chatapp.generation.text.thinking import split
from chatapp.text.printable import printable

PAUSE = 0.01
"""Seconds between two outputs of an answer: each wakes its reader, who takes a core from the model."""


@dataclass
class Completion:
    """One of n completions, as far as it has come."""

    text: str = ""
    thinking: str = ""
    """What the model thought before that, with its marks."""
    tokens: list[Token] = field(default_factory=list)
    finish_reason: FinishReason = "cancelled"


@dataclass
class Answer:
    """All that came."""

    completions: list[Completion]
    interrupted: bool = False
    """Whether Ctrl+C ended it."""


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


def collect(deltas: Iterator[Delta], count: int, until: Callable[[Delta, Answer], object] | None = None) -> Answer:
    """Everything the model says in `count` completions, told to `until` as it comes, whose True is enough."""
    answer = Answer([Completion() for _ in range(count)])
    stream = cast(Generator[Delta], deltas)  # it can be closed: that is how a turn is cancelled
    with stoppable() as stop, closing(stream):
        for delta in stream:
            completion = answer.completions[delta.index]
            if delta.channel == "thinking":
                completion.thinking += delta.text
            else:
                completion.text += delta.text
            completion.tokens += delta.tokens
            completion.finish_reason = delta.finish_reason or completion.finish_reason
            if until and until(delta, answer) is True:
                break
            if stop.is_set():
                answer.interrupted = True
                break
    return answer


def print_answer(engine: Engine, deltas: Iterator[Delta], count: int, form: Form) -> Answer:
    """Print `count` completions one after the other, the first as it arrives."""
    due, waiting, thinking = 0.0, list[str](), Thinking(form)

    def first(delta: Delta, answer: Answer) -> None:
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
        answer = collect(deltas, count, None if form.json else first)
    finally:
        thinking.end()
        print_waiting()
    for index, completion in enumerate(answer.completions):
        if form.json:
            print(as_json(index, completion, logprobs=form.logprobs), flush=True)
            continue
        if index:
            note(f"completion {index + 1} of {count}")
            write(completion.text, form)
        end_line(completion.text, form)
        if form.logprobs:
            print_logprobs(completion.tokens)
    if answer.interrupted:
        note("Interrupted.")
    if form.stats and engine.last_usage:
        print_stats(engine.last_usage, form.stats)
    return answer


class Thinking:
    """Prints what the first of the completions thinks, on standard error: dim in a terminal, elsewhere if asked for."""

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


def as_json(index: int, completion: Completion, *, logprobs: bool = False) -> str:
    """A completion as one line of JSON."""
    facts = {"index": index, "text": completion.text, "finish_reason": completion.finish_reason}
    if completion.thinking:
        facts["thinking"] = split(completion.thinking).thinking
    return json.dumps(facts | ({"tokens": [asdict(token) for token in completion.tokens]} if logprobs else {}))


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
