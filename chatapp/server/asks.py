"""What can be asked of a model, whatever the protocol: a conversation, texts to continue, a gap to fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from chatapp.generation import Deltas, Engine, Message, Options, Surroundings
from chatapp.generation.engine import Engine as LocalEngine
from chatapp.generation.options import without_free_text
from chatapp.server.gaps import find_gap
from chatapp.server.refusals import UNPROCESSABLE, Refusal

Given = Mapping[str, Any]  # Any: each option has its own type, which Options checks
"""The options of a request; the rest are the model's defaults."""


class Ask(Protocol):
    """A request that is answered by deltas."""

    def count(self, engine: Engine) -> int:
        """The tokens of the longest prompt."""

    def draw(self, engine: Engine, most: int | None) -> Deltas:
        """The deltas, with at most `most` tokens per text."""


@dataclass(frozen=True)
class Conversation:
    """A conversation to answer."""

    messages: Sequence[Message]
    given: Given

    def count(self, engine: Engine) -> int:
        think, tools = self.given.get("think"), self.given.get("tools", ())
        return engine.count_chat(self.messages, think=think, tools=tools)

    def draw(self, engine: Engine, most: int | None) -> Deltas:
        usual = replace(engine.defaults, file_start=0, indentation=0, stop_at_dedent=0)
        return engine.chat(self.messages, limit(replace(usual, **self.given), most))


@dataclass(frozen=True)
class Texts:
    """Texts or tokens to continue, one after another; control tokens spelled in a text are recognised."""

    prompts: Sequence[str | Sequence[int]]
    given: Given
    scored: bool = False
    """Whether each prompt is echoed first, with the log-probabilities of its tokens."""
    goes_on: bool = True
    """Whether anything is generated after it."""

    def count(self, engine: Engine) -> int:
        options, prompts = replace(engine.defaults, **self.given), [self._read(engine, one) for one in self.prompts]
        return max(one.count(engine) if isinstance(one, Gap) else engine.count_prompt(one, options) for one in prompts)

    def draw(self, engine: Engine, most: int | None) -> Deltas:
        options = limit(replace(engine.defaults, **self.given), most)

        def go_on(prompt: str | Sequence[int]) -> Deltas:
            found = self._read(engine, prompt)
            if isinstance(found, Gap):
                return found.draw(engine, most)
            if not self.scored:
                return engine.complete(found, options)
            # Greedy decoding needs no seed, and with a seed the prompt would be read again.
            unseeded = replace(options, seed=None) if options.temperature == 0 else options
            following = engine.complete(found, unseeded) if self.goes_on else None
            return join_prompt(check_local(engine).score(found, options), following, options.n)

        def go_on_with_all(first: Deltas) -> Deltas:
            yield from first
            for number, prompt in enumerate(self.prompts[1:], 1):
                for delta in go_on(prompt):
                    yield replace(delta, index=delta.index + number * options.n)

        first = go_on(self.prompts[0])
        for prompt in self.prompts[1:]:  # check all prompts before the first is answered
            go_on(prompt)
        return go_on_with_all(first) if len(self.prompts) > 1 else first

    def _read(self, engine: Engine, prompt: str | Sequence[int]) -> str | Sequence[int] | Gap:
        if not isinstance(prompt, str):
            return check_tokens(engine, prompt)
        if not self.scored and engine.can_infill and (gap := find_gap(prompt)):
            return Gap(*gap, self.given)
        return engine.encode_marked(prompt) or prompt


def join_prompt(prompt: Deltas, following: Deltas | None, n: int) -> Deltas:
    """The scored prompt as the beginning of each of n completions, then what follows it."""
    seconds = 0.0
    for delta in prompt:
        seconds += delta.timings.prefill
        told = replace(delta, finish_reason=None, usage=None) if following else delta
        for index in range(n):
            yield replace(told, index=index, usage=told.usage if index == n - 1 else None)
    for delta in following or ():
        if usage := delta.usage:  # the cached tokens were computed while the prompt was scored
            usage = replace(usage, cached_tokens=0, prefill_seconds=usage.prefill_seconds + seconds)
        yield replace(delta, usage=usage)


@dataclass(frozen=True)
class Gap:
    """A gap between two texts to fill."""

    prefix: str
    suffix: str
    given: Given
    around: Surroundings | None = None

    def count(self, engine: Engine) -> int:
        return 0  # never too long: text far from the gap is left out

    def draw(self, engine: Engine, most: int | None) -> Deltas:
        if not engine.can_infill:
            raise Refusal(400, "this model does not support insert: it was not trained to fill gaps", param="suffix")
        usual = without_free_text(engine.defaults)
        return engine.infill(self.prefix, self.suffix, limit(replace(usual, **self.given), most), self.around)


def limit(options: Options, most: int | None) -> Options:
    """The options with at most `most` tokens; Refusal if they ask for more."""
    if most is None or options.max_tokens is not None and options.max_tokens <= most:
        return options
    if options.max_tokens is not None:
        message = f"max_tokens is {options.max_tokens:,}, and this server allows at most {most:,}"
        raise Refusal(UNPROCESSABLE, message, param="max_tokens", code="invalid_value")
    return replace(options, max_tokens=most)


def check_tokens(engine: Engine, tokens: Sequence[int], name: str = "prompt") -> Sequence[int]:
    """The tokens, checked to be the model's; Refusal if not, or if the model is on another server."""
    most = check_local(engine).session.vocab_size
    if wrong := next((token for token in tokens if not 0 <= token < most), None):
        raise Refusal(400, f"{name} has {wrong}; this model's tokens are 0 to {most - 1:,}", param=name)
    return tokens


def check_local(engine: Engine) -> LocalEngine:
    """The engine, if it is local; Refusal otherwise."""
    if not isinstance(engine, LocalEngine):
        raise Refusal(400, "this model is on another server, which alone knows its tokens; ask that one", param="model")
    return engine
