"""What sessions share: the count of the tokens in their caches, and how they are rewound."""

from backends import Top, check_rewind


class CachedSession:
    """A session that counts what is in its cache, row by row the same."""

    whole_prompts = False
    rows_apart = False
    token_bytes = 0
    top: Top | None = None
    cached = 0
    """Tokens that the decoder sees in every row."""
    read_ahead = 0
    """Tokens of the prompt beside the one in whose place the decoder's cache has the start token."""

    @property
    def length(self) -> int:
        return self.cached + self.read_ahead

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length, self.read_ahead + 1)
        self.read_ahead = self.read_ahead if length else 0
        self.cached = length - self.read_ahead
