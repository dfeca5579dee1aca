"""What an editor's user has set for completion, in the editor."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from backends.suggest import suggest
from chatapp.completion.completer import THRESHOLD
from chatapp.text.errors import UserError


class SettingError(UserError):
    """A setting of the editor's is unknown, or of the wrong kind."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings an editor may give, by name."""

    enabled: bool = True
    model: str = ""
    """Nothing: the model of the user's settings."""
    threshold: float = THRESHOLD
    """The probability from which an offer is shown unasked."""
    lines: int = 1
    """At most so many lines; 0: as many as the block asks for."""
    folder: bool = True
    """Whether the other files of the folder may have offers."""


def read(given: object, before: ServerSettings) -> ServerSettings:
    """What was set before, with what is given now; SettingError tells what is wrong, and then nothing of it counts."""
    if given is None or given == []:  # what some editors send for no settings
        return before
    if not isinstance(given, Mapping):
        raise SettingError('the settings of chatapp must be an object with names, such as {"threshold": 0.3}')
    if set(given) == {"chatapp"}:
        return read(given["chatapp"], before)
    kinds = {field.name: type(getattr(before, field.name)) for field in fields(ServerSettings)}
    for name, value in given.items():
        if name not in kinds:
            hint = suggest(str(name), kinds, f"known are {', '.join(kinds)}")
            raise SettingError(f"chatapp knows no setting {name!r}; {hint}")
        if type(value) is not kinds[name] and not (kinds[name] is float and type(value) is int):
            raise SettingError(f"chatapp's setting {name!r} must be {WORDS[kinds[name]]}, not {value!r}")
    settings = replace(before, **given)
    if not 0 <= settings.threshold <= 1:
        raise SettingError(f"chatapp's setting 'threshold' must be from 0 to 1, not {settings.threshold:g}")
    if settings.lines < 0:
        raise SettingError(f"chatapp's setting 'lines' must be 0 or more, not {settings.lines}")
    return settings


WORDS = {bool: "true or false", str: "a text", float: "a number", int: "a whole number"}
