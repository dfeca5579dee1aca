"""Requests answered one after the other in a thread of their own; of one document only the newest is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass
class Request(Generic[Answer]):
    """A request, and its answer to come."""

    document: str
    work: Callable[[Callable[[], bool]], Answer]
    """Makes the answer; is told whether it is still wanted."""
    answer: Future[Answer | None] = field(default_factory=Future)
    """None where a newer request has come."""
    wanted: bool = True


class Requests(Generic[Answer]):
    """At most one request of each document waits, and one is being answered."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: dict[str, Request[Answer]] = {}
        self._running: Request[Answer] | None = None
        self._ended = False
        self._thread = Thread(target=self._run, name="completions", daemon=True)
        self._thread.start()

    def ask(self, document: str, work: Callable[[Callable[[], bool]], Answer]) -> Request[Answer]:
        """Let `work` be done, and what was asked before about the same document be left."""
        request = Request(document, work)
        with self._changed:
            if self._running and self._running.document == document:
                self._running.wanted = False
            older = self._waiting.pop(document, None)
            self._waiting[document] = request
            self._changed.notify()
        if older and older.answer.set_running_or_notify_cancel():
            older.answer.set_result(None)
        return request

    def end(self, patience: float = 2.0) -> None:
        """Leave everything that is not answered; wait so many seconds at most for what is being done."""
        with self._changed:
            self._ended = True
            if self._running:
                self._running.wanted = False
            self._changed.notify()
        self._thread.join(patience)

    def _run(self) -> None:
        while request := self._next():
            if not request.answer.set_running_or_notify_cancel():
                continue
            try:
                answer = request.work(lambda request=request: request.wanted)  # type: ignore[misc]
            except BaseException as error:  # whoever waits is told
                request.answer.set_exception(error)
            else:
                request.answer.set_result(answer if request.wanted else None)

    def _next(self) -> Request[Answer] | None:
        with self._changed:
            self._running = None
            while not self._waiting and not self._ended:
                self._changed.wait()
            if self._ended:
                return None
            self._running = self._waiting.pop(next(iter(self._waiting)))
            return self._running
