"""How answers are to be, as the command line says it: a preset and a system prompt, each perhaps by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chatapp.settings import settings
from chatapp.text.errors import InputError

if TYPE_CHECKING:
    from chatapp.conversation import Setup
    from chatapp.generation import Engine

NO_SWITCH = "{} cannot switch its thinking: its chat template has no switch"
THINKS = {True: "The model thinks before it answers.", False: "The model answers at once."}


@dataclass(frozen=True)
class Manner:
    """What new conversations begin with."""

    options: Mapping[str, Any] = field(default_factory=dict)  # Any: what Options takes
    system: str = ""

    @property
    def chosen(self) -> bool:
        """Whether anything was."""
        return bool(self.options or self.system)


def read(preset: str | None, system: str | None, think: bool | None = None) -> Manner:
    """The options of a preset and the text of a system prompt, looked up where the user keeps them."""
    options: Mapping[str, Any] = {}
    if preset is not None:
        from chatapp.settings import presets

        options = presets.find(settings.home() / "presets.toml", preset).over({})
    if system is not None:
        from chatapp.settings import system_prompts

        system = system_prompts.resolve(settings.home() / "prompts", system)
    if think is not None:
        options = {**options, "think": think}
    return Manner(options, system or "")


def check_thinking(engine: "Engine", model: str, options: Mapping[str, Any]) -> None:
    """Refuse to switch the thinking of a model whose template has no switch."""
    if options.get("think") is not None and not engine.can_switch_thinking:
        raise InputError(NO_SWITCH.format(model))


def without_thinking(setup: "Setup") -> "Setup":
    """How answers are to be, for a model whose thinking has no switch."""
    return replace(setup, options={name: value for name, value in setup.options.items() if name != "think"})
