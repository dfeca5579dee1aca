"""What can go wrong with conversations, in words for the user.

HistoryError
  ConversationNotFound    no conversation or message has this number
  NotKept                 the database cannot be read or written
  NotUnderstood           a file to import is not what we know
"""

from backends.errors import UserError


class HistoryError(UserError):
    """Conversations cannot be kept or found."""


class ConversationNotFound(HistoryError):
    """No conversation or message has this number."""


class NotKept(HistoryError):
    """The database cannot be read or written; what it held before is untouched."""


class NotUnderstood(HistoryError):
    """A file to import is damaged, or none of the formats that are known."""
