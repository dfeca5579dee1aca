"""Requests answered one after the other in a thread of their own; of one document only the newest is."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass
class Request(Generic[Answer]):
    """A request, and its answer to come."""

    wanted: bool = True
    answer: Future[Answer | None] = field(init=False)
    """None, or cancelled, where a newer request has come."""

    def leave(self) -> None:
        """Want it no more."""
        self.wanted = False
        self.answer.cancel()


class Requests(Generic[Answer]):
    """Those that wait are left as soon as there is a newer one of their document."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "completions")
        self._newest: dict[str, Request[Answer]] = {}

    def ask(self, document: str, work: Callable[[Callable[[], bool]], Answer]) -> Request[Answer]:
        """Let `work` be done, which can ask whether it is wanted; leave what was asked about the document before."""
        if older := self._newest.get(document):
            older.leave()
        request = self._newest[document] = Request()

        def answer() -> Answer | None:
            found = work(lambda: request.wanted) if request.wanted else None
            return found if request.wanted else None

        request.answer = self._thread.submit(answer)
        return request

    def forget(self, document: str) -> None:
        """Leave what was asked about a document, and keep nothing of it."""
        if request := self._newest.pop(document, None):
            request.leave()

    def end(self, patience: float = 2.0) -> None:
        """Leave everything that is not answered; wait so many seconds at most for what is being done."""
        for request in self._newest.values():
            request.leave()
        wait([one.answer for one in self._newest.values() if not one.answer.cancelled()], patience)
