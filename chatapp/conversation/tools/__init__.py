"""Tools of other programs, which a model may ask for: servers of the Model Context Protocol, and what they may do.

Nothing is imported of the protocol's package, and nothing is started, before a conversation uses a server.
"""

from dataclasses import dataclass
from typing import Literal

from backends.errors import UserError
from chatapp.text.printable import printable


class ToolError(UserError):
    """A server of tools, or a call, failed; the message says which, and what can be done."""


@dataclass(frozen=True)
class Result:
    """What came of a call."""

    text: str
    """As the model is told it."""
    outcome: Literal["done", "failed", "refused"] = "done"


def shorten(text: str) -> str:
    """The beginning of what somebody else says, in one harmless line."""
    line = " ".join(printable(text).split())
    return f"{line[:300]}…" if len(line) > 300 else line
