"""How answers are to be, as the command line says it: a preset and a system prompt, each perhaps by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatapp import settings


@dataclass(frozen=True)
class Manner:
    """What new conversations begin with."""

    options: Mapping[str, Any] = field(default_factory=dict)  # Any: what Options takes
    system: str = ""

    @property
    def chosen(self) -> bool:
        """Whether anything was."""
        return bool(self.options or self.system)


def read(preset: str | None, system: str | None) -> Manner:
    """The options of a preset and the text of a system prompt, looked up where the user keeps them."""
    options: Mapping[str, Any] = {}
    if preset is not None:
        from chatapp import presets

        options = presets.find(settings.home() / "presets.toml", preset).over({})
    if system is not None:
        from chatapp import system_prompts

        system = system_prompts.resolve(settings.home() / "prompts", system)
    return Manner(options, system or "")
