"""Places for requests: a bounded queue, shared fairly between clients."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from chatapp.server.refusals import BUSY, UNAVAILABLE, Refusal


class FairQueue:
    """Limits running and waiting requests; the client with the fewest places is next."""

    def __init__(self, places: int, length: int, patience: float):
        self.places, self.length, self.patience = places, length, patience
        self.running: Counter[str] = Counter()
        """Places by client."""
        self.draining = False
        """Whether no more requests are accepted."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By client, the client served last at the end."""

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def answering(self) -> int:
        """How many requests have a place."""
        return self.running.total()

    async def enter(self, client: str) -> None:
        """Wait for a place; Refusal if there is none. Every place must be left again."""
        if self.draining:
            raise Refusal(UNAVAILABLE, "the server is shutting down; try again in a moment", retry_after=5)
        if self.answering < self.places and not self._waiting:
            self.running[client] += 1
            return
        if self.waiting >= self.length:
            raise Refusal(BUSY, f"{self.waiting} requests are waiting; try again later", retry_after=5)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn), self.patience)
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(client)
            self._forget(client, turn)
            if isinstance(error, TimeoutError):
                message = f"no slot became free within {self.patience:g} seconds; try again later"
                raise Refusal(UNAVAILABLE, message, retry_after=10) from error
            raise

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turn.cancel()
        if queue := self._waiting.get(client):
            with suppress(ValueError):
                queue.remove(turn)
            if not queue:
                del self._waiting[client]

    def leave(self, client: str) -> None:
        """Give up a place, and pass it to the next client."""
        self.running[client] -= 1
        self.running += Counter()  # drops clients with no place
        while self._waiting and self.answering < self.places:
            following = min(self._waiting, key=lambda one: self.running[one])
            queue = self._waiting.pop(following)
            turn = queue.popleft()
            if queue:
                self._waiting[following] = queue
            if not turn.done():
                self.running[following] += 1
                turn.set_result(None)

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """A place for the duration of the block."""
        await self.enter(client)
        try:
            yield
        finally:
            self.leave(client)
