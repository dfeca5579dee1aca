"""What cannot be verified, in words for the user."""

from backends.errors import UserError


class VerifyError(UserError):
    """There is nothing to compare with, or it does not belong to the model; the message says what to do."""
