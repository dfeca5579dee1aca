"""Shows errors on the screen instead of letting them end the app."""

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
    """Show errors raised inside that are meant for the user; internal errors are raised."""
    try:
        yield
    except Exception as error:
        if not (line := one_line(error)):
            raise
        teller.notify(line, severity="warning" if isinstance(error, InputError) else "error", timeout=10, markup=False)
