"""Tell the user on the screen what went wrong, in place of ending with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from chatapp.text.errors import InputError, one_line


class Notifies(Protocol):
    """A widget, a screen or the app."""

    def notify(
        self, message: str, *, severity: Literal["information", "warning", "error"], timeout: float, markup: bool
    ) -> None: ...


@contextmanager
def telling(teller: Notifies) -> Iterator[None]:
    """What goes wrong in here is shown, if it is the user's to know; a defect of chatapp passes as it is."""
    try:
        yield
    except Exception as error:
        if not (line := one_line(error)):
            raise
        severity: Literal["warning", "error"] = "warning" if isinstance(error, InputError) else "error"
        teller.notify(line, severity=severity, timeout=10, markup=False)
