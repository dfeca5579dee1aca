"""An HTTP transport that counts the bytes of answers as they arrive."""

from collections.abc import AsyncIterator
from ssl import SSLContext

import httpx2

from chatapp.conversation.tools.flow import Flood, Flow


class Stream(httpx2.AsyncByteStream):
    """The bytes of an answer; in an event stream each event counts as a message, otherwise the whole body."""

    def __init__(self, inner: httpx2.AsyncByteStream, flow: Flow, *, whole: bool) -> None:
        self.inner, self.flow, self.whole = inner, flow, whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self.inner:
            lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # a line may end in any of the three
            before, end, after = lines.rpartition(b"\n\n")
            size = len(after) if end and not self.whole else size + len(piece)
            try:
                self.flow.take(size=len(piece), messages=before.count(b"\n\n") + bool(end))
                self.flow.check(size)
            except Flood as flood:
                self.flow.give_up(str(flood))
                raise httpx2.ReadError(str(flood)) from flood
            yield piece

    async def aclose(self) -> None:
        await self.inner.aclose()


class Bounded(httpx2.AsyncHTTPTransport):
    """Counts answers as they are on the wire, and refuses compressed ones, which could expand to any size."""

    def __init__(self, flow: Flow, *, verify: SSLContext | bool) -> None:
        super().__init__(verify=verify)
        self.flow = flow

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            self.flow.give_up("sent a compressed answer, which was not requested")
            raise httpx2.ReadError(self.flow.fault)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = Stream(response.stream, self.flow, whole=not events)
        return response
