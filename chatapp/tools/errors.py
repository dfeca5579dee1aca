"""What goes wrong with servers of tools."""

from backends.errors import UserError


class ToolError(UserError):
    """A server of tools, or a call, failed; the message says which, and what can be done."""
