"""Connections: limits slow requests and the number of connections."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chatapp.server.protocol import compact

SLOW_HEAD = 10.0
"""Seconds to receive the head of a request."""
LARGEST_HEAD = 32 * 1024
"""Maximum bytes of a head."""
MOST = 1000
"""Maximum connections, unless the limit of open files is lower."""
WRITING = 60.0
"""Seconds a client may leave sent data unread."""
UNSAID = "Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket", "Cancel "
"""How uvicorn's messages begin about requests that have a log line anyway."""
COUNTING = 5.0
"""Seconds during which closed connections are counted for one log line."""


class Connection(H11Protocol):
    """One connection; if there are too many, an idle one is closed."""

    most = MOST
    closed: Counter[str] = Counter()
    """Closed connections not logged yet, by reason."""
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # a Transport, as TCP has it
        self._wait_for_head()
        if len(self.connections) > self.most:
            others: Any = self.connections  # a set of protocols, which are of this class
            idle = next((one for one in others if one is not self and one.is_idle), self)
            idle._abort(f"there are more than {self.most:,}")

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def handle_events(self) -> None:
        super().handle_events()
        if self._late and not self.is_idle:
            self._late.cancel()
            self._late = None
        elif not self._late and self.is_idle and self.conn.trailing_data[0]:  # the next request has begun
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._late = self.loop.call_later(SLOW_HEAD, self._abort, f"no request within {SLOW_HEAD:g} seconds")

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request; logged here only if no valid request is in progress, which has its own line."""
        if self.is_idle:
            self.logger.warning("400 (this is not an HTTP/1.1 request)")
        with suppress(h11.LocalProtocolError):
            error = {"message": "this is not an HTTP/1.1 request", "type": "invalid_request_error", "param": None}
            content = compact({"error": {**error, "code": "invalid_http"}})
            head = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
            response = h11.Response(status_code=400, headers=[*head, (b"connection", b"close")], reason=b"Bad Request")
            for part in response, h11.Data(data=content), h11.EndOfMessage():
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(WRITING, self._abort, f"the client read nothing for {WRITING:g} seconds")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck:
            self._stuck.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in self._late, self._stuck:
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def _abort(self, why: str) -> None:
        self.transport.abort()
        if not self.closed[why]:
            self.loop.call_later(COUNTING, self._tell, why)
        self.closed[why] += 1

    def _tell(self, why: str) -> None:
        self.logger.warning("closed connections: %d (%s)", self.closed.pop(why), why)
