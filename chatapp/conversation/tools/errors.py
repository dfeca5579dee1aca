"""What goes wrong with servers of tools."""

from backends.errors import UserError
from chatapp.text.printable import printable


class ToolError(UserError):
    """A server of tools, or a call, failed; the message says which, and what can be done."""


def shorten(text: str) -> str:
    """The beginning of what somebody else says, in one harmless line."""
    line = " ".join(printable(text).split())
    return f"{line[:300]}…" if len(line) > 300 else line
