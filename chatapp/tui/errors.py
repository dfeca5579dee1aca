"""Tell the user on the screen what went wrong, in place of ending with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatapp.text.errors import InputError, one_line

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget


@contextmanager
def telling(teller: App[Any] | Widget) -> Iterator[None]:  # Any: an app of whatever result
    """What goes wrong in here is shown, if it is the user's to know; a defect of chatapp passes as it is."""
    try:
        yield
    except Exception as error:
        if not (line := one_line(error)):
            raise
        teller.notify(line, severity="warning" if isinstance(error, InputError) else "error", timeout=10, markup=False)
