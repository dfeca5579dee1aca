"""Streams of events over HTTP: each is counted, however its lines end."""

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("httpx2")
import httpx2

from chatapp.conversation.tools.bounded import Stream
from chatapp.conversation.tools.flow import LARGEST, MOST, Flow


class Pieces(httpx2.AsyncByteStream):
    """What comes from a server, piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


async def read(flow: Flow, *pieces: bytes) -> int:
    return sum([len(piece) async for piece in Stream(Pieces(*pieces), flow, whole=False)])


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_events_are_counted_and_none_is_taken_for_a_part_of_the_next(end: bytes) -> None:
    event = b"data: " + bytes(8_000).replace(b"\0", b"x") + end + end
    sent = LARGEST // len(event) + 10
    assert await read(Flow(), *[event] * sent) == sent * len(event)
    flow = Flow()
    with pytest.raises(httpx2.ReadError, match=f"more than {MOST:,} messages"):
        await read(flow, *[(b"data: x" + end + end) * 100] * 30)
    assert flow.fault
