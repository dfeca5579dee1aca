"""Save replies while they grow, in batches that cost the model next to nothing."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chatapp.history.errors import HistoryError
from chatapp.history.records import Message

if TYPE_CHECKING:
    from chatapp.history.history import History

PAUSE = 0.25
"""Seconds between two batches: so much of a reply is lost at most when chatapp is killed."""
SHARE = 0.02
"""Of the time, what saving may take; the pauses grow with the text."""
RETRY = 5.0
"""Seconds after which saving is tried again when it failed."""


class Recording:
    """The replies of one turn on their way into the history; what cannot be saved at once is saved later."""

    def __init__(self, history: "History", replies: Sequence[Message]) -> None:
        self.history, self.replies = history, replies
        self.texts = ["" for _ in replies]
        self.failure: HistoryError | None = None
        """Why it could not be saved the last time."""
        self._grown: set[int] = set()
        self._due = 0.0

    def grow(self, index: int, text: str) -> None:
        """One of the replies has grown by a text."""
        if text:
            self.texts[index] += text
            self._grown.add(index)
        if self._grown and time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Save what has grown; `failure` tells if that did not work."""
        start = time.monotonic()
        try:
            self.history.grow({self.replies[index].id: self.texts[index] for index in self._grown})
        except HistoryError as error:
            self.failure = error
            self._due = time.monotonic() + RETRY
            return
        self.failure = None
        self._grown.clear()
        self._due = time.monotonic() + max(PAUSE, (time.monotonic() - start) / SHARE)

    def end(self, reasons: Sequence[str], usage: Mapping[str, Any]) -> None:
        """The replies have ended; `failure` tells if they could not be saved, and `end_again` saves them later."""
        self._end = tuple(reasons), usage
        try:
            self.end_again()
        except HistoryError as error:
            self.failure = error

    def end_again(self) -> None:
        """Save the end of the replies."""
        reasons, usage = self._end
        for reply, text, reason in zip(self.replies, self.texts, reasons, strict=True):
            self.history.finish(reply.id, text, finish_reason=reason, usage=usage)
        self.failure = None
