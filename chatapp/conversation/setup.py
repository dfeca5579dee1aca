"""How a conversation is answered (model, options, system prompt, tools), and its JSON form."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from chatapp.generation import Engine, OptionError, Options
from chatapp.generation.text.thinking import Think
from chatapp.history.text import clean, one_line
from chatapp.text.errors import InputError

WhenFull = Literal["stop", "slide", "summarise"]
"""What happens when a conversation no longer fits: it stops, drops its beginning, or summarises it."""
NO_TEMPLATE = "{} has no chat template and cannot continue a conversation; to start a new one: /clear"
NO_SWITCH = "{} cannot turn thinking on or off: its chat template has no switch for it"
OTHER_SWITCH = "{} cannot think like that: its chat template supports {}"
CHOSEN: Mapping[Think, str] = {True: "think", False: "no thinking"}
DEFAULTS = asdict(Options())


@dataclass(frozen=True)
class Setup:
    """How a conversation is answered; saved with it."""

    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # Any: each option has a type of its own
    """The options the user chose, by their names in Options; the rest are the model's defaults."""
    system: str = ""
    """The system prompt."""
    when_full: WhenFull = "stop"
    tools: tuple[str, ...] = ()
    """The names of the tool servers it uses."""

    def apply_to(self, defaults: Options) -> Options:
        """The options over the model's `defaults`; OptionError says which are invalid together."""
        return replace(defaults, **self.options)

    def without_thinking(self) -> "Setup":
        """The same without a choice of thinking."""
        return replace(self, options={name: value for name, value in self.options.items() if name != "think"})

    def as_json(self) -> dict[str, Any]:  # Any: JSON
        """The setup in JSON's types."""
        told = {**asdict(self), "options": options_as_json(self.options), "tools": list(self.tools)}
        return told if self.tools else {name: fact for name, fact in told.items() if name != "tools"}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "Setup":
        """A setup from JSON, perhaps written by another version or by hand; invalid values are dropped."""
        model, system = (text if isinstance(text := stored.get(name), str) else "" for name in ("model", "system"))
        when_full: Any = stored.get("when_full")
        options, tools = stored.get("options"), stored.get("tools")
        return cls(
            model=one_line(model),
            system=clean(system),
            options=options_of_json(options) if isinstance(options, Mapping) else {},
            when_full=when_full if when_full in get_args(WhenFull) else "stop",
            tools=tuple(one for one in tools if isinstance(one, str)) if isinstance(tools, list) else (),
        )


def check_thinking(engine: Engine, model: str, options: Mapping[str, Any]) -> None:
    """Raise InputError if the options choose a kind of thinking that the model's template does not offer."""
    if wrong := wrong_thinking(engine, model, options):
        raise InputError(wrong)


def wrong_thinking(engine: Engine, model: str, options: Mapping[str, Any]) -> str:
    """Why the model cannot think as these options say; empty if it can, or if they do not say."""
    think, known = options.get("think"), engine.thinking_choices
    if think is None or think in known:
        return ""
    if not known:
        return NO_SWITCH.format(model)
    return OTHER_SWITCH.format(model, ", ".join(CHOSEN.get(one, f"{one} effort") for one in known))


def tell_thinking(think: Think) -> str:
    """The message shown when thinking was switched."""
    if isinstance(think, str):
        return f"The model thinks with {think} effort."
    return "The model thinks before it answers." if think else "The model answers at once."


def options_as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set, in JSON's types."""
    said = {name: value for name, value in options.items() if value not in (None, (), {}) or value != DEFAULTS[name]}
    chosen: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    if "logit_bias" in chosen:
        biases = chosen["logit_bias"].items()
        chosen["logit_bias"] = {str(token): bias if math.isfinite(bias) else str(bias) for token, bias in biases}
    return chosen


def options_of_json(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The stored options that exist and are valid."""
    options: dict[str, Any] = {}
    for name in DEFAULTS.keys() & stored.keys():
        try:
            value = stored[name]
            if isinstance(value, list):
                value = tuple(value)
            elif name == "logit_bias":
                value = {int(token): float(bias) for token, bias in value.items()}
            Options(**{name: value})
        except (OptionError, TypeError, ValueError, AttributeError):
            continue
        options[name] = value
    return options
