"""Requests answered one after another on a thread; of each document only the newest counts."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass
class Request(Generic[Answer]):
    """A request and its future answer."""

    wanted: bool = True
    answer: Future[Answer | None] = field(init=False)
    """None, or cancelled, if a newer request has arrived."""

    def leave(self) -> None:
        """Abandon it."""
        self.wanted = False
        self.answer.cancel()


class Requests(Generic[Answer]):
    """A queue in which a request is abandoned once its document has a newer one."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "completions")
        self._newest: dict[str, Request[Answer]] = {}

    def ask(self, document: str, work: Callable[[Callable[[], bool]], Answer]) -> Request[Answer]:
        """Queue `work`, which gets a function that says whether its answer is still wanted."""
        if older := self._newest.get(document):
            older.leave()
        request = self._newest[document] = Request()

        def answer() -> Answer | None:
            found = work(lambda: request.wanted) if request.wanted else None
            return found if request.wanted else None

        request.answer = self._thread.submit(answer)
        return request

    def forget(self, document: str) -> None:
        """Abandon a document's request."""
        if request := self._newest.pop(document, None):
            request.leave()

    def end(self, patience: float = 2.0) -> None:
        """Abandon everything, waiting at most this many seconds for the work in progress."""
        for request in self._newest.values():
            request.leave()
        wait([one.answer for one in self._newest.values() if not one.answer.cancelled()], patience)
