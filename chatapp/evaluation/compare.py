"""Ask several models, or one on several backends, the same; compare texts and speeds.

By default they answer one after another: at once they would share the processor's cores and its memory bandwidth, and
each would be measured as far slower than it is. Taking turns token by token, they can be watched side by side, but need
memory for all, and each finds the processor's caches full of another's weights.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile

from backends import Placement
from chatapp.generation import Delta, Deltas, Engine, Message, Reply, Usage
from chatapp.text.errors import one_line
from chatapp.text.units import milliseconds, rate, table

TIE = 0.03
"""Below this relative difference two speeds are equal."""


@dataclass(frozen=True)
class Runner:
    """A participant."""

    name: str
    """Its name for the user: a model, and perhaps a backend."""
    model: str
    open: Callable[[], Engine]


@dataclass(frozen=True)
class Opened:
    """A model is open; `placement` is where the runtime says it runs."""

    index: int
    placement: str


@dataclass(frozen=True)
class Wrote:
    """A model wrote something, or read a part of the prompt."""

    index: int
    delta: Delta


@dataclass(frozen=True)
class Result:
    """What a model wrote, and its figures."""

    name: str
    model: str
    reply: Reply

    @property
    def usage(self) -> Usage:
        """The engine's summary."""
        assert self.reply.usage is not None, "the last delta has the usage"
        return self.reply.usage

    @property
    def text(self) -> str:
        """The whole text, with the thinking."""
        return self.reply.thinking + self.reply.text

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.reply.tokens)

    @property
    def placement(self) -> str:
        """Backend, device and precision at the end, which change if a backend failed."""
        return describe(self.usage)


@dataclass(frozen=True)
class Ended:
    """A model has finished."""

    index: int
    result: Result


@dataclass(frozen=True)
class Failed:
    """A model could not be opened, or failed; the others go on."""

    index: int
    error: str


Event = Opened | Wrote | Ended | Failed


@dataclass(frozen=True)
class Question:
    """The question for all; decoded greedily, so that texts can be compared."""

    text: str
    system: str = ""
    max_tokens: int = 128

    def ask(self, engine: Engine) -> Deltas:
        """The answer of a model with a chat template, or the continuation of any other."""
        # The seed does not affect greedy answers, but with one the prompt is read without the cache.
        options = replace(engine.defaults, temperature=0.0, max_tokens=self.max_tokens, seed=0, logprobs=0)
        if not engine.can_chat:
            return engine.complete(self.text, options)
        system = [Message("system", self.system)] if self.system else []
        return engine.chat([*system, Message("user", self.text)], options)


def answer_one_by_one(runners: Sequence[Runner], question: Question) -> Generator[Event, None, None]:
    """Let them answer one after another, each closed before the next is opened; closing cancels."""
    for index, runner in enumerate(runners):
        yield from let_answer(index, runner, question)


def answer_in_turn(runners: Sequence[Runner], question: Question) -> Generator[Event, None, None]:
    """Let them take turns, a token each, all of them open; closing cancels."""
    answers = [let_answer(index, runner, question) for index, runner in enumerate(runners)]
    try:
        while answers:
            for one in list(answers):
                event = next(one, None)
                if event is None:
                    answers.remove(one)
                else:
                    yield event
    finally:
        for one in answers:
            one.close()


def let_answer(index: int, runner: Runner, question: Question) -> Generator[Event, None, None]:
    """Let one model answer, from opening to its end."""
    try:
        engine = runner.open()
        yield Opened(index, describe(engine.placement))
        warm_up(engine, question)
        reply = Reply()
        with closing(question.ask(engine)) as deltas:
            for delta in deltas:
                reply.add(delta)
                yield Wrote(index, delta)
        yield Ended(index, Result(runner.name, runner.model, reply))
    except Exception as error:  # runtimes raise anything
        yield Failed(index, one_line(error) or f"{type(error).__name__}: {error}")


def warm_up(engine: Engine, question: Question) -> None:
    """Generate a token untimed, so that a runtime's one-time work does not count."""
    with closing(question.ask(engine)) as deltas:
        for delta in deltas:
            if delta.tokens:
                break


def describe(placement: Placement | Usage) -> str:
    """Backend, device and precision."""
    return f"{placement.backend} · {placement.device} · {placement.precision}"


def format_figures(results: Sequence[Result]) -> str:
    """A table of the figures of those that finished."""
    heads = ("", "first token", "tok/s", "p95", "tokens", "loaded in", "runs on")
    rows = [
        (
            result.name,
            milliseconds(result.usage.time_to_first_token),
            rate(result.usage.tokens_per_second),
            milliseconds(result.usage.p95) if result.usage.latencies else "–",
            f"{result.usage.completion_tokens:,}",
            milliseconds(result.usage.load_seconds),
            result.placement,
        )
        for result in results
    ]
    return table(heads, rows)


def describe_outcome(results: Sequence[Result]) -> list[str]:
    """Sentences about which is fastest, and how alike the texts are."""
    if len(results) < 2:
        return []
    return [*describe_pace(results), describe_likeness(results)]


def describe_pace(results: Sequence[Result]) -> list[str]:
    """Which is fastest, if at least two wrote enough to tell."""
    timed = [result for result in results if result.usage.latencies]
    if len(timed) < 2:
        return []
    fastest, second, *_ = sorted(timed, key=lambda result: -result.usage.tokens_per_second)
    factor = fastest.usage.tokens_per_second / second.usage.tokens_per_second
    if factor < 1 + TIE:
        return [f"{fastest.name} and {second.name} write equally fast, within {TIE * 100:.0f} %."]
    return [f"{fastest.name} writes {factor:.2f} times as fast as {second.name}."]


def describe_likeness(results: Sequence[Result]) -> str:
    """How much of the beginning is the same, in tokens if all use the same ones."""
    every = "both" if len(results) == 2 else f"all {len(results)}"
    if len({result.text for result in results}) == 1:
        count = len(results[0].tokens)
        length = f"{count:,} tokens" if _same_model(results) else f"{len(results[0].text):,} characters"
        return f"The texts of {every} are equal: {length}."
    parts: list[Sequence[object]] = [result.tokens if _same_model(results) else result.text for result in results]
    unit = "token" if _same_model(results) else "character"
    shared = sum(1 for _ in takewhile(lambda items: len({*items}) == 1, zip(*parts, strict=False)))
    longest = max(map(len, parts))
    if not shared:
        return f"The texts differ from the first {unit} on."
    return f"The texts of {every} are equal for {shared:,} of {longest:,} {unit}s."


def _same_model(results: Sequence[Result]) -> bool:
    return len({result.model for result in results}) == 1
