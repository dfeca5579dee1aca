"""What an editor's user has set for completion, in the editor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from chatapp.completion.completer import THRESHOLD
from chatapp.text.errors import UserError
from chatapp.text.suggest import suggest


class WishError(UserError):
    """A setting of the editor's is unknown, or of the wrong kind."""


@dataclass(frozen=True)
class Wishes:
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


def read(given: object, before: Wishes) -> Wishes:
    """What was set before, with what is given now; WishError tells what is wrong, and then nothing of it counts."""
    if given is None or given == []:  # what some editors send for no settings
        return before
    if not isinstance(given, Mapping):
        raise WishError('the settings of chatapp must be an object with names, such as {"threshold": 0.3}')
    if set(given) == {"chatapp"}:
        return read(given["chatapp"], before)
    kinds = {field.name: type(getattr(before, field.name)) for field in fields(Wishes)}
    for name, value in given.items():
        if name not in kinds:
            hint = suggest(str(name), kinds, f"known are {', '.join(kinds)}")
            raise WishError(f"chatapp knows no setting {name!r}; {hint}")
        if type(value) is not kinds[name] and not (kinds[name] is float and type(value) is int):
            raise WishError(f"chatapp's setting {name!r} must be {WORDS[kinds[name]]}, not {value!r}")
    wishes = replace(before, **given)
    if not 0 <= wishes.threshold <= 1:
        raise WishError(f"chatapp's setting 'threshold' must be from 0 to 1, not {wishes.threshold:g}")
    if wishes.lines < 0:
        raise WishError(f"chatapp's setting 'lines' must be 0 or more, not {wishes.lines}")
    return wishes


WORDS = {bool: "true or false", str: "a text", float: "a number", int: "a whole number"}
