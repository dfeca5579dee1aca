"""The completion settings that an editor may send."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from backends.suggest import suggest
from chatapp.completion.completer import THRESHOLD
from chatapp.text.errors import UserError


class SettingError(UserError):
    """An editor's setting is unknown or of the wrong type."""


@dataclass(frozen=True)
class ServerSettings:
    """An editor's settings by name."""

    enabled: bool = True
    model: str = ""
    """Empty: the model in settings.toml."""
    threshold: float = THRESHOLD
    """The least probability of an offer that is shown unasked."""
    lines: int = 1
    """Maximum lines of an offer; 0: up to the end of the block."""
    folder: bool = True
    """Whether the folder's other files are searched."""


def read(given: object, before: ServerSettings) -> ServerSettings:
    """The settings `before`, updated with those given; SettingError if one is invalid, and none applies."""
    if given is None or given == []:  # some editors send a list for no settings
        return before
    if not isinstance(given, Mapping):
        raise SettingError('the settings of chatapp must be an object, such as {"threshold": 0.3}')
    if set(given) == {"chatapp"}:
        return read(given["chatapp"], before)
    kinds = {field.name: type(getattr(before, field.name)) for field in fields(ServerSettings)}
    for name, value in given.items():
        if name not in kinds:
            hint = suggest(str(name), kinds, f"choose from {', '.join(kinds)}")
            raise SettingError(f"unknown setting {name!r}; {hint}")
        if type(value) is not kinds[name] and not (kinds[name] is float and type(value) is int):
            raise SettingError(f"chatapp's setting {name!r} must be {WORDS[kinds[name]]}, not {value!r}")
    settings = replace(before, **given)
    if not 0 <= settings.threshold <= 1:
        raise SettingError(f"chatapp's setting 'threshold' must be from 0 to 1, not {settings.threshold:g}")
    if settings.lines < 0:
        raise SettingError(f"chatapp's setting 'lines' must be 0 or more, not {settings.lines}")
    return settings


WORDS = {bool: "true or false", str: "a text", float: "a number", int: "a whole number"}
