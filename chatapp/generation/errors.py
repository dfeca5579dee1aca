"""What can go wrong while generating, in words for the user.

GenerationError
└── PromptTooLong
"""

from backends.errors import UserError


class GenerationError(UserError):
    """A reply cannot be generated; the message says why, and what to do."""


class PromptTooLong(GenerationError):
    """The prompt has more tokens than the context."""

    def __init__(self, tokens: int, context_length: int, *, and_more: bool = False):
        """With `and_more`, `tokens` is where counting stopped."""
        many, how = tokens - context_length, "more than " if and_more else ""
        super().__init__(
            f"the prompt is too long by {how}{many:,} token{'s' * (many != 1)} ({how}{tokens:,} of {context_length:,})"
            "; shorten it, or choose a model with a longer context"
        )
        self.tokens, self.context_length = tokens, context_length
