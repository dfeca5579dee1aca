"""Sessions whose cache cannot rewind to every token: they remember the text and read again what was lost."""

from collections.abc import Sequence

import numpy as np

from backends import KeyValues, check_call, check_parents, check_rewind
from backends.rereading import PART, RememberingSession, parts


class ForgetfulSession(RememberingSession):
    """Remembers all tokens; after a rewind, the session behind may have fewer of them cached."""

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if self.length - self.session.length + count > PART:
            self.catch_up()
        missing = [row[self.session.length :] for row in self.rows] or [[]] * batch
        text = np.concatenate([np.array(missing, np.int64).reshape(batch, -1), tokens], axis=1)
        logits = self.read(text, last)
        self.remember(tokens)
        return logits

    def catch_up(self) -> None:
        """Read again the remembered tokens that the session behind lacks."""
        begun = self.session.length
        text = np.array([row[begun:] for row in self.rows], np.int64)
        for start, end in parts(self.length - begun):
            self.read(text[:, start:end])

    def read(self, text: np.ndarray, last: int = 1) -> np.ndarray:
        """Let the session behind read the next tokens."""
        return self.session.forward(text, last)

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length)
        self.rows = [row[:length] for row in self.rows] if length else []
        if length < self.session.length:
            self.go_back(length)

    def nearest(self, length: int) -> int:
        return self.session.length if length >= self.session.length else self.place_before(length)

    def place_before(self, length: int) -> int:
        """The largest length, at most `length`, that the session behind can rewind to."""
        raise NotImplementedError

    def go_back(self, length: int) -> None:
        """Rewind the session behind to that length."""
        self.session.rewind(self.place_before(length))

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.catch_up()
        self.session.reorder(parents)
        self.rows = [list(self.rows[parent]) for parent in parents]

    def export(self, row: int) -> KeyValues | None:
        self.catch_up()
        return self.session.export(row)

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Restore one row; where `found` does not serve, its tokens are read again."""
        self.rows = [list(tokens)]
        if self.serves(found, len(tokens)):
            self.session.restore(tokens, found)
        else:
            self.session.rewind(0)
