"""What can go wrong while generating, in words for the user.

GenerationError
└── PromptTooLong
"""


class GenerationError(Exception):
    """A reply that cannot be made; the message says why and what to do."""


class PromptTooLong(GenerationError):
    """A prompt of more tokens than the model's context holds."""

    def __init__(self, tokens: int, context_length: int):
        super().__init__(
            f"the prompt is {tokens:,} tokens, this model holds {context_length:,}; "
            f"shorten it by {tokens - context_length:,}"
        )
        self.tokens, self.context_length = tokens, context_length
