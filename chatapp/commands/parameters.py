"""Generation options as `/set parameter NAME VALUE` takes them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backends.suggest import suggest
from chatapp.generation.options import KNOBS, OptionError, Options
from chatapp.text.errors import InputError
from chatapp.text.files import expand, read_input
from chatapp.text.printable import printable

ANY = "any text"
NOTHING: Mapping[type, Any] = {type(None): None, tuple: (), dict: {}}  # Any: each kind has its own
"""The value that `none` stands for, by the type of the option's default."""
LONGEST = 60
"""Maximum characters of a value that are shown."""


def read_parameter(name: str, given: str) -> tuple[str, Any]:  # Any: each option has its own type, which Options checks
    """Parse an option: its name in Options, and its checked value."""
    if not name:
        raise InputError("no parameter given; for example: /set parameter temperature 0.7; to list them: /? set")
    if name in ABSENT:
        raise InputError(f"there is no parameter {name!r}: {ABSENT[name]}")
    own = OLLAMA.get(name, name.replace("-", "_"))
    if own not in PARAMETERS:
        hint = suggest(name, [*PARAMETERS, *OLLAMA], "to list them: /? set")
        raise InputError(f"there is no parameter {name!r}; {hint}")
    parameter = PARAMETERS[own]
    example = f"such as: /set parameter {own} {parameter.example}"
    if not given:
        raise InputError(f"no value given for {own}, {example}")
    try:
        kind = type(getattr(Options(), own))
        value = NOTHING[kind] if given.lower() == "none" and kind in NOTHING else parameter.read(given)
        options = Options(**{own: value})
        if options.constraint:
            from chatapp.generation.decoding.grammar import check_grammar

            check_grammar(options)
    except OptionError as error:
        raise InputError(error.spell(lambda _: name)) from error
    except (ValueError, KeyError) as error:
        raise InputError(f"{given!r} is not a value of {own}, {example}") from error
    return own, value


def describe_value(name: str, value: Any) -> str:  # Any: as above
    """An option's value in a few words."""
    knob = KNOBS.get(name)
    if value in (None, (), {}):
        said = PARAMETERS[name].none
    elif knob and value == knob.off:
        said = knob.word
    elif isinstance(value, bool):
        said = str(value).lower()
    elif isinstance(value, tuple):
        said = ", ".join(value)
    elif isinstance(value, Mapping):
        said = ", ".join(f"{token}={bias:g}" for token, bias in value.items())
    else:
        said = str(value)
    line = printable(said.replace("\n", "\\n").replace("\t", "\\t"))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _whole(given: str) -> int | None:
    """An integer; -1 means None, as in Ollama."""
    return None if given == "-1" else int(given)


def _stops(given: str) -> tuple[str, ...]:
    r"""Quoted texts, in which `\n` is a line end and `\t` a tab, or a single unquoted text."""
    if re.fullmatch(r'("(?:[^"\\]|\\.)+"\s*)+', given):
        inside = re.findall(r'"((?:[^"\\]|\\.)+)"', given)
        plain = {"n": "\n", "t": "\t"}
        return tuple(re.sub(r"\\(.)", lambda found: plain.get(found[1], found[1]), one) for one in inside)
    return (given,)


def _schema(given: str) -> str:
    """A schema or grammar given in place (it starts with `{` or `start:`), or the content of a file."""
    return given if given.lstrip().startswith(("{", "start:")) else read_input(str(expand(given)))


def _names(given: str) -> tuple[str, ...]:
    """Names separated by spaces or commas."""
    return tuple(given.replace(",", " ").split())


def _truth(given: str) -> bool:
    """True or false."""
    return {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}[given.lower()]


def _early(given: str) -> bool | str:
    """True, false or never."""
    return "never" if given.lower() == "never" else _truth(given)


def _biases(given: str) -> dict[int, float]:
    """Pairs such as 50256=-100."""
    return {int(token): float(bias) for token, _, bias in (pair.partition("=") for pair in given.split())}


@dataclass(frozen=True)
class Parameter:
    """An option as `/set parameter` takes it."""

    read: Callable[[str], Any]  # Any: each option has its own type, which Options checks
    example: str
    does: str
    none: str = "none"
    """Shown if there is no value."""


PARAMETERS: Mapping[str, Parameter] = {
    name: Parameter(type(knob.default), knob.example, knob.does) for name, knob in KNOBS.items()
} | {
    "logit_bias": Parameter(_biases, "50256=-100", "added to the logits of tokens, by ID; none: off"),
    "stop": Parameter(_stops, '"END"', "stop before one of these texts; none: off"),
    "dry_breakers": Parameter(_stops, '"\\n" ":"', "tokens that contain one of these end a DRY sequence"),
    "dry_whole_words": Parameter(_truth, "true", "whether tokens inside a word are exempt from DRY"),
    "bad_words": Parameter(_stops, '"very"', "texts that are never generated; none: off"),
    "sampler_order": Parameter(_names, "top_k temperature", "sampler order; none: the default"),
    "speculate": Parameter(
        _truth, "false", "whether tokens are guessed, even with a seed; none: when it helps", "when it helps"
    ),
    "json_schema": Parameter(
        _schema, '{"type": "array"}', "answer with JSON of this schema, or of a file; none: any text", ANY
    ),
    "json_object": Parameter(_truth, "true", "whether the answer is any JSON object"),
    "regex": Parameter(str, "[0-9]+", "the answer matches this as a whole; none: any text", ANY),
    "grammar": Parameter(
        _schema, 'start: "a" | "b"', "the answer follows this grammar, or that in a file; none: any text", ANY
    ),
    "choice": Parameter(_stops, '"yes" "no"', "answer with one of these texts; none: any text", ANY),
    "num_beams": Parameter(int, "4", "beams of a beam search; 1: sample instead"),
    "num_beam_groups": Parameter(int, "2", "groups of beams that avoid each other's tokens"),
    "length_penalty": Parameter(float, "1.0", "a beam's score is divided by its length to the power of this"),
    "diversity_penalty": Parameter(float, "0.5", "how strongly groups of beams avoid each other's tokens"),
    "early_stopping": Parameter(_early, "true", "when a search with enough texts stops: false, true or never"),
    "beam_sampling": Parameter(_truth, "true", "whether beams are sampled"),
    "max_tokens": Parameter(_whole, "256", "at most this many tokens; none: until the context is full", "no limit"),
    "seed": Parameter(_whole, "42", "the same seed gives the same text; none: a random one", "random"),
}
"""The options that can be set, by their names in Options."""
OLLAMA = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}
"""Ollama's names for our options."""
ABSENT = {
    "num_ctx": "the context is as long as the model's",
    "num_gpu": "chatapp chooses where a model runs; to override: chatapp run --device",
    "num_thread": "chatapp uses one thread per available core; to use four, on Linux: taskset -c 0-3 chatapp",
    "repeat_last_n": "the penalties cover the whole text",
}
"""Ollama's parameters that do not exist here, and why."""
