"""The options of one request, checked, and those that a model's publisher recommends."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.errors import UserError
from chatapp.generation.errors import GenerationError

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
PENALTIES = ("repetition_penalty",)


class OptionError(UserError):
    """An option outside its range; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class Options:
    """Sampling options in OpenAI's spelling; the order in which they act is told in sampling.py."""

    temperature: float = 0.8
    """0 is greedy: always the likeliest token."""
    top_k: int = 40
    """0 is off."""
    top_p: float = 0.95
    """1 is off."""
    min_p: float = 0.0
    """0 is off."""
    repetition_penalty: float = 1.0
    """Divides the positive logits, multiplies the negative ones, of every token in prompt or reply; 1 is off."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of every token in the reply."""
    frequency_penalty: float = 0.0
    """Subtracted once for each time a token is in the reply."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logit of a token; minus infinity forbids it."""
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    """None: until the context is full."""
    seed: int | None = None
    """None: drawn at random, and told in the usage. With a seed the prompt is always read anew, so that the
    text does not depend on what the cache held."""
    n: int = 1
    """How many completions, decoded as one batch."""
    logprobs: int | None = None
    """None: none; k: the log-probability of each token and of the k likeliest."""
    think: bool | None = None
    """Whether the model thinks before it answers, where its template has a switch; None: as it does by itself."""

    def __post_init__(self) -> None:
        if self.temperature != 0:
            _check_number("temperature", self.temperature, 0.0001, 100, "0 (greedy) or from 0.0001 to 100")
        _check_whole("top_k", self.top_k, 0, None, "0 (off) or more")
        if not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            raise _error("top_p", self.top_p, "above 0 and at most 1")
        if not (_is_number(self.min_p) and 0 <= self.min_p < 1):
            raise _error("min_p", self.min_p, "0 (off) or more, and below 1")
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100, "from 0.01 to 100; 1 is off")
        _check_number("presence_penalty", self.presence_penalty, -100, 100, "from -100 to 100")
        _check_number("frequency_penalty", self.frequency_penalty, -100, 100, "from -100 to 100")
        if self.max_tokens is not None:
            _check_whole("max_tokens", self.max_tokens, 1, None, "1 or more")
        if self.seed is not None:
            _check_whole("seed", self.seed, 0, 2**64 - 1, "from 0 to 2**64 - 1")
        _check_whole("n", self.n, 1, 64, "from 1 to 64")
        if self.logprobs is not None:
            _check_whole("logprobs", self.logprobs, 0, 20, "from 0 to 20")
        if self.think not in (None, True, False):
            raise _error("think", self.think, "true or false")
        self._check_stop()
        self._check_logit_bias()

    def _check_stop(self) -> None:
        if isinstance(self.stop, str) or not all(isinstance(text, str) and text for text in self.stop):
            raise _error("stop", self.stop, "a list of texts, none of them empty")
        object.__setattr__(self, "stop", tuple(self.stop))

    def _check_logit_bias(self) -> None:
        for token, bias in self.logit_bias.items():
            if not _is_whole(token) or token < 0:
                raise _error("logit_bias", token, "keyed by token ids, which are 0 or more")
            if isinstance(bias, bool) or not isinstance(bias, (int, float)) or math.isnan(bias) or bias == math.inf:
                raise _error("logit_bias", bias, "numbers below infinity")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_number(name: str, value: float, low: float, high: float, allowed: str) -> None:
    if not (_is_number(value) and low <= value <= high):
        raise _error(name, value, allowed)


def _check_whole(name: str, value: int, low: int, high: int | None, allowed: str) -> None:
    if not (_is_whole(value) and low <= value and (high is None or value <= high)):
        raise _error(name, value, f"a whole number, {allowed}")


def _error(name: str, value: object, allowed: str) -> OptionError:
    return OptionError(f"{name} must be {allowed}, not {value!r}")


def published_options(folder: Path) -> Options:
    """Our defaults, in which what the publisher of the checkpoint in `folder` says counts first.

    With `"do_sample": false` it is greedy; what is said about sampling beside it has no effect then.
    `stop_strings`, one or several, end a reply.
    """
    from model_store.files import optional_json

    path = folder / "generation_config.json"
    config = optional_json(path)
    greedy = config.get("do_sample") is False
    names = PENALTIES if greedy else SAMPLING + PENALTIES
    values = {name: config[name] for name in names if config.get(name) is not None}
    if stop := config.get("stop_strings"):
        values["stop"] = (stop,) if isinstance(stop, str) else stop
    try:
        return Options(**values | ({"temperature": 0.0} if greedy else {}))
    except OptionError as error:
        raise GenerationError(f"{path} has a wrong value: {error}; correct it, or delete the line") from error
