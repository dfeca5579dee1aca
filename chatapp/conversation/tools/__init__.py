"""Tools that models may call: servers of the Model Context Protocol (MCP).

The protocol's package is imported, and servers are started, only once a conversation uses them.
"""

from dataclasses import dataclass
from typing import Literal

from backends.errors import UserError
from chatapp.text.printable import printable


class ToolError(UserError):
    """A tool server or a call failed; the message says which, and what to do."""


@dataclass(frozen=True)
class Result:
    """The result of a tool call."""

    text: str
    """As the model gets it."""
    outcome: Literal["done", "failed", "refused"] = "done"


def shorten(text: str) -> str:
    """The beginning of somebody else's text, as one printable line."""
    line = " ".join(printable(text).split())
    return f"{line[:300]}…" if len(line) > 300 else line
