"""The options of one request, checked, and the defaults that a model's publisher recommends."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from backends.errors import UserError
from chatapp.generation.errors import GenerationError
from chatapp.generation.text.thinking import EFFORTS, Think


class OptionError(UserError):
    """An option is out of range; the message names it, its value and what is allowed."""

    def __init__(self, message: str, *names: str):
        """`names` are the options that the message names, by field; the first is to blame."""
        super().__init__(message)
        self.names = names

    def spell(self, spelling: Callable[[str], str]) -> str:
        """The message with each option called as it was where it was given."""
        message = str(self)
        for name in self.names:
            message = re.sub(rf"\b{name}\b", spelling(name), message, count=1)
        return message


@dataclass(frozen=True)
class Knob:
    """A numeric option of a small function in decoding/: its values, and how command line and screen present it."""

    default: float
    """An int if all values are."""
    allowed: str
    fits: Callable[[float], bool]
    metavar: str
    help: str
    """For the command line; `{default}` is replaced by the default."""
    example: str
    does: str
    """For `/set parameter`, like `example`."""
    label: str
    steps: tuple[float, ...]
    """The stops of its slider."""
    off: float = 0
    word: str = "off"
    """The word for the value with no effect."""
    penalty: bool = False
    rare: bool = False
    """Whether the screen has no slider for it."""


def list_steps(low: float, high: float, step: float) -> tuple[float, ...]:
    """The multiples of a step from `low` to `high`."""
    return tuple(round(low + place * step, 4) for place in range(round((high - low) / step) + 1))


def _row(knob: Knob) -> Any:  # Any: a field that stands for a number
    return field(default=knob.default, metadata={"knob": knob})


@dataclass(frozen=True)
class Options:
    """Sampling options with OpenAI's names; decoding/sampling.py tells the order in which they act."""

    # fmt: off
    temperature: float = _row(Knob(
        0.8, "0 (greedy) or from 0.0001 to 100", lambda value: value == 0 or 0.0001 <= value <= 100,
        "T", "randomness; 0 is greedy (default: {default})", "0.7", "randomness; 0 is greedy",
        "temperature", list_steps(0, 2, 0.1), word="greedy"))
    top_k: int = _row(Knob(
        40, "a whole number, 0 (off) or more", lambda value: value >= 0,
        "K", "keep the K likeliest tokens; 0 is off (default: {default})",
        "40", "keep the K likeliest tokens; 0 is off", "top_k",
        (0, 1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50, 64, 80, 100, 150, 200, 500, 1000)))
    top_p: float = _row(Knob(
        0.95, "above 0 and at most 1", lambda value: 0 < value <= 1,
        "P", "keep the likeliest tokens, up to P in total (default: {default})",
        "0.9", "keep the likeliest tokens, up to this total probability", "top_p", list_steps(0.05, 1, 0.05), off=1))
    min_p: float = _row(Knob(
        0.0, "0 (off) or more, and below 1", lambda value: 0 <= value < 1,
        "P", "drop tokens below P times the best (default: {default})", "0.05",
        "drop tokens below this fraction of the best", "min_p",
        (0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)))
    repetition_penalty: float = _row(Knob(
        1.0, "from 0.01 to 100; 1 is off", lambda value: 0.01 <= value <= 100,
        "R", "penalise tokens in the prompt or answer (default: 1, off)", "1.1",
        "penalise tokens in the prompt or the answer; 1 is off",
        "repetition", list_steps(0.8, 2, 0.05), off=1, penalty=True))
    presence_penalty: float = _row(Knob(
        0.0, "from -100 to 100", lambda value: -100 <= value <= 100,
        "P", "penalise tokens in the answer once (default: {default})", "0.5", "penalise tokens in the answer, once",
        "presence", list_steps(-2, 2, 0.1), penalty=True))
    frequency_penalty: float = _row(Knob(
        0.0, "from -100 to 100", lambda value: -100 <= value <= 100,
        "P", "penalise them each time (default: {default})", "0.5", "penalise tokens in the answer, each time",
        "frequency", list_steps(-2, 2, 0.1), penalty=True))
    typical_p: float = _row(Knob(
        1.0, "above 0 and at most 1", lambda value: 0 < value <= 1,
        "P", "keep the most typical tokens, up to P in total (default: 1, off)",
        "0.9", "keep the most typical tokens, up to this total probability", "typical_p", (), off=1, rare=True))
    top_n_sigma: float = _row(Knob(
        0.0, "0 (off) or more", lambda value: value >= 0,
        "N", "keep logits within N standard deviations of the best (default: 0, off)", "1.5",
        "keep logits within this many standard deviations of the best", "top_n_sigma", (), rare=True))
    xtc_probability: float = _row(Knob(
        0.0, "from 0 (off) to 1", lambda value: 0 <= value <= 1,
        "P", "how often XTC drops the likeliest tokens (default: 0, off)", "0.5",
        "how often XTC drops the likeliest tokens", "xtc", (), rare=True))
    xtc_threshold: float = _row(Knob(
        0.1, "above 0 and at most 0.5", lambda value: 0 < value <= 0.5,
        "P", "XTC drops tokens above P, except the last (default: {default})", "0.1",
        "XTC drops tokens above this probability, except the last", "xtc_threshold", (), off=-1, rare=True))
    dynamic_temperature: float = _row(Knob(
        0.0, "0 (off) or more, and at most 100", lambda value: 0 <= value <= 100,
        "T", "lower the temperature by up to T where the model is sure, raise it where not (default: 0, off)", "0.5",
        "how far the temperature follows the model's uncertainty", "dynamic", (), rare=True))
    dynamic_exponent: float = _row(Knob(
        1.0, "above 0 and at most 100", lambda value: 0 < value <= 100,
        "E", "above 1: only great uncertainty raises it (default: {default})", "1",
        "above 1: only great uncertainty raises the temperature", "dyn_exponent", (), off=-1, rare=True))
    mirostat_tau: float = _row(Knob(
        0.0, "0 (off) or more", lambda value: value >= 0,
        "BITS", "target surprise per token in bits, Mirostat 2 (default: 0, off)", "5",
        "target surprise per token in bits, Mirostat 2", "mirostat", (), rare=True))
    mirostat_eta: float = _row(Knob(
        0.1, "above 0 and at most 1", lambda value: 0 < value <= 1,
        "R", "learning rate of Mirostat (default: {default})", "0.1",
        "learning rate of Mirostat", "miro_eta", (), off=-1, rare=True))
    dry_multiplier: float = _row(Knob(
        0.0, "from 0 (off) to 100", lambda value: 0 <= value <= 100,
        "M", "how strongly DRY penalises repeated sequences (default: 0, off)", "0.8",
        "how strongly DRY penalises repeated sequences", "dry", (), penalty=True, rare=True))
    dry_base: float = _row(Knob(
        1.75, "from 1 to 10", lambda value: 1 <= value <= 10,
        "B", "growth of that penalty per repeated token (default: {default})", "1.75",
        "growth of the DRY penalty per repeated token", "dry_base", (), off=-1, penalty=True, rare=True))
    dry_allowed_length: int = _row(Knob(
        2, "a whole number, 1 or more", lambda value: value >= 1,
        "N", "longest repetition without penalty (default: {default})", "2", "longest repetition without DRY penalty",
        "dry_length", (), off=-1, penalty=True, rare=True))
    no_repeat_ngram_size: int = _row(Knob(
        0, "a whole number, 0 (off) or more", lambda value: value >= 0,
        "N", "never repeat N tokens in a row (default: 0, off)", "3", "never repeat this many tokens in a row",
        "no_repeat", (), penalty=True, rare=True))
    file_start: int = _row(Knob(
        0, "0 (off) or 1", lambda value: value in (0, 1),
        "0|1", "1: the text is the beginning of a code file", "1", "1: the text is the beginning of a code file",
        "file_start", (), rare=True))
    indentation: int = _row(Knob(
        0, "0 (off) or 1", lambda value: value in (0, 1),
        "0|1", "1: keep the continuation indented as code", "1",
        "1: keep the continuation indented as code", "indentation", (), rare=True))
    stop_at_dedent: int = _row(Knob(
        0, "0 (off) or 1", lambda value: value in (0, 1),
        "0|1", "1: after a colon or brace, stop where the block ends", "1",
        "1: after a colon or brace, stop where the block ends", "stop_dedent", (), rare=True))
    # fmt: on
    dry_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    """A token that contains one of these ends DRY's sequences, and is never penalised."""
    dry_whole_words: bool = False
    """Whether DRY spares tokens that continue a word: names are not spelt otherwise."""
    bad_words: tuple[str, ...] = ()
    """Words or phrases that are never written, as usually tokenised."""
    sampler_order: tuple[str, ...] = ()
    """The order of the filters; those left out follow in their usual order."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to a token's logit; minus infinity forbids it."""
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    """None: until the context is full."""
    seed: int | None = None
    """None: random, and reported in the usage. With a seed the prompt is always read anew, so that the text does not
    depend on the cache."""
    n: int = 1
    """The number of completions, decoded as one batch; with beams, the best ones."""
    num_beams: int = 1
    """Beams of a search; 1: no search."""
    num_beam_groups: int = 1
    """Groups of beams; each avoids what earlier ones chose."""
    length_penalty: float = 1.0
    """Scores are divided by length ** length_penalty: above 0 favours longer texts."""
    diversity_penalty: float = 0.0
    """Subtracted from a token's score for each beam of earlier groups that chose it in the same step."""
    early_stopping: bool | Literal["never"] = False
    """When a search with enough texts ends: False: when others are hardly better; True: at once; never: when none can
    be better."""
    beam_sampling: bool = False
    """Whether beams are sampled, with the sampling options, instead of the most likely ones."""
    logprobs: int | None = None
    """None: none; k: the log-probability of each token and of the k most likely."""
    think: Think | None = None
    """Whether the model thinks before it answers, or how much, if its template can switch that; None: the template's
    default."""
    tools: tuple[str, ...] = ()
    """Functions that the model may call, each as JSON in OpenAI's form; for templates with tools."""
    speculate: bool | None = None
    """Whether tokens are drafted and several verified per step; None: if that pays off, no seed was given, and the
    backend rounds several tokens like one."""
    json_schema: str | None = None
    """A JSON Schema, as text, for the answer."""
    json_object: bool = False
    """Whether the answer is any JSON object."""
    regex: str | None = None
    """A regular expression that the whole answer matches, in the syntax of Rust's crate regex."""
    grammar: str | None = None
    """A grammar for the answer, in llguidance's dialect of Lark."""
    choice: tuple[str, ...] = ()
    """The possible answers."""

    def __post_init__(self) -> None:
        for name, knob in KNOBS.items():
            value = getattr(self, name)
            if not ((_is_whole if type(knob.default) is int else _is_number)(value) and knob.fits(value)):
                raise _error(name, value, knob.allowed)
        for name, (least, most, allowed) in WHOLE.items():
            value = getattr(self, name)
            if not (_is_whole(value) and least <= value <= most) and (value is not None or name in ALWAYS):
                raise _error(name, value, f"a whole number, {allowed}")
        for name, (choices, allowed) in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise _error(name, value, allowed)
        for name in ("stop", "dry_breakers", "bad_words", "sampler_order", "choice", "tools"):
            self._check_texts(name)
        if wrong := [name for name in self.sampler_order if name not in ORDER]:
            raise _error("sampler_order", wrong[0], f"made of {', '.join(ORDER)}")
        if len(set(self.sampler_order)) < len(self.sampler_order):
            raise _error("sampler_order", " ".join(self.sampler_order), "without duplicates")
        for name, (low, high) in BEAM_NUMBERS.items():
            if not _is_number(value := getattr(self, name)) or not low <= value <= high:
                raise _error(name, value, f"from {low} to {high}")
        for name in ("json_schema", "regex", "grammar"):
            if not ((value := getattr(self, name)) is None or (isinstance(value, str) and value.strip())):
                raise _error(name, value, "non-empty text")
        self._check_logit_bias()

    @property
    def constraint(self) -> str | None:
        """The name of the option that constrains the answer; None if none does."""
        return next((name for name in GRAMMARS if getattr(self, name)), None)

    @property
    def guesses(self) -> bool:
        """Whether tokens are drafted, for a single text; by default only without a seed.

        A seed promises the same text, and several tokens read at once may be rounded differently from one.
        """
        wanted = self.seed is None if self.speculate is None else self.speculate
        return wanted and self.n == self.num_beams == 1

    def _check_texts(self, name: str) -> None:
        texts = getattr(self, name)
        listed = isinstance(texts, Iterable) and not isinstance(texts, str)
        if not listed or not all(isinstance(text, str) and text for text in texts):
            raise _error(name, texts, "a list of non-empty texts")
        object.__setattr__(self, name, tuple(texts))

    def _check_logit_bias(self) -> None:
        if not isinstance(self.logit_bias, Mapping):
            raise _error("logit_bias", self.logit_bias, "biases by token ids")
        for token, bias in self.logit_bias.items():
            if not _is_whole(token) or token < 0:
                raise _error("logit_bias", token, "keyed by token ids, which are 0 or more")
            if isinstance(bias, bool) or not isinstance(bias, (int, float)) or math.isnan(bias) or bias == math.inf:
                raise _error("logit_bias", bias, "numbers below infinity")


ORDER = ("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc")
"""The usual order of the filters: Hugging Face's, then those that it lacks."""
KNOBS: Mapping[str, Knob] = {each.name: each.metadata["knob"] for each in fields(Options) if each.metadata}
"""The numeric options for choosing tokens, by field."""
WHOLE = {
    "max_tokens": (1, math.inf, "1 or more"),
    "seed": (0, 2**64 - 1, "from 0 to 2**64 - 1"),
    "n": (1, 64, "from 1 to 64"),
    "num_beams": (1, 64, "from 1 to 64"),
    "num_beam_groups": (1, 64, "from 1 to 64"),
    "logprobs": (0, 20, "from 0 to 20"),
}
"""The range of other whole numbers, also in words."""
ALWAYS = ("n", "num_beams", "num_beam_groups")
"""Those that cannot be None."""
CHOICES: Mapping[str, tuple[Iterable[object], str]] = {
    "think": ((None, True, False, *EFFORTS), f"true, false, {', '.join(EFFORTS)}"),
    "speculate": ((None, True, False), "true or false"),
    "early_stopping": ((True, False, "never"), "true, false or never"),
    **dict.fromkeys(("dry_whole_words", "beam_sampling", "json_object"), ((True, False), "true or false")),
}
"""The values of options that are not numbers, also in words."""
BEAM_NUMBERS = {"length_penalty": (-10, 10), "diversity_penalty": (0, 1000)}
"""The ranges of beam scores' options."""


GRAMMARS = ("json_schema", "json_object", "regex", "grammar", "choice")
"""The options that constrain the whole answer, at most one at a time."""


def check_together(options: Options) -> None:
    """Raise for options that contradict each other."""
    if len(given := [name for name in GRAMMARS if getattr(options, name)]) > 1:
        raise OptionError(f"{' and '.join(given)} each constrain the whole answer; give only one", *given)
    if options.speculate and max(options.n, options.num_beams) > 1:
        several = "n" if options.n > 1 else "num_beams"
        message = f"speculate works for one text, and {several} asks for several; leave one out"
        raise OptionError(message, "speculate", several)
    beams, groups = options.num_beams, options.num_beam_groups
    if beams == 1:
        for name, usual in BEAM_OPTIONS.items():
            if getattr(options, name) != usual:
                raise OptionError(f"{name} needs a beam search; add num_beams", name, "num_beams")
        return
    if options.n > beams:
        message = f"a search with {beams} beams finds {beams} texts, not {options.n}; raise num_beams"
        raise OptionError(message, "num_beams")
    if beams % groups:
        message = f"{beams} beams do not make {groups} equal groups; choose another num_beam_groups"
        raise OptionError(message, "num_beam_groups")
    if (groups > 1) != (options.diversity_penalty > 0):
        both = "num_beam_groups", "diversity_penalty"
        raise OptionError(f"{' and '.join(both)} belong together; give both, or neither", *both)
    if groups > 1 and options.beam_sampling:
        raise OptionError("beam_sampling does not work with groups of beams; leave one out", "beam_sampling")
    if options.mirostat_tau:
        raise OptionError("mirostat_tau does not work with a beam search; leave it out", "mirostat_tau")
    if options.beam_sampling and not options.temperature:
        message = "beam_sampling does not work with a temperature of 0; change one of them"
        raise OptionError(message, "beam_sampling")


BEAM_OPTIONS = {
    "num_beam_groups": 1,
    "length_penalty": 1.0,
    "diversity_penalty": 0.0,
    "early_stopping": False,
    "beam_sampling": False,
}
"""Options of beam searches only, with their defaults."""


def without_free_text(defaults: Options) -> Options:
    """A model's defaults for filling gaps: code may repeat itself there, and does not begin a file."""
    stop = ("\n\n",) if defaults.stop else ()  # models with stop strings may not end by themselves
    off = replace(defaults, repetition_penalty=1.0, dry_multiplier=0.0, stop=stop)
    return replace(off, file_start=0, indentation=0, stop_at_dedent=0)


OURS = "dry_multiplier", "dry_base", "dry_allowed_length", "dry_breakers", "dry_whole_words"
"""Options of our own that generation_config.json may have, too."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _error(name: str, value: object, allowed: str) -> OptionError:
    said = repr(value) if isinstance(value, str | float) else json.dumps(value, default=repr)
    return OptionError(f"{name} must be {allowed}, not {said}", name)


def published_options(folder: Path) -> Options:
    """Our defaults, overridden by the recommendations of the checkpoint in `folder`.

    With `"do_sample": false` decoding is greedy, and sampling options beside it have no effect. `stop_strings`, one or
    several, end a reply.
    """
    from model_store.files import optional_json

    path = folder / "generation_config.json"
    config = optional_json(path)
    greedy = config.get("do_sample") is False
    names = [name for name, knob in KNOBS.items() if not (greedy or knob.penalty)]
    names += ["repetition_penalty", "no_repeat_ngram_size", *OURS]
    values = {name: config[name] for name in names if config.get(name) is not None}
    if stop := config.get("stop_strings"):
        values["stop"] = (stop,) if isinstance(stop, str) else stop
    try:
        return Options(**values | ({"temperature": 0.0} if greedy else {}))
    except OptionError as error:
        raise GenerationError(f"{path} has a wrong value: {error}; correct it, or delete the line") from error
