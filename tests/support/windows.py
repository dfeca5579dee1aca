"""A window's server in tests: with an app of its own behind it, and clients that say what they like."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from chatapp.desktop.bridge import Bridge
from chatapp.desktop.state import WindowState
from support.patience import PATIENCE

ECHO = (sys.executable, "-m", "support.echo_screen")


@dataclass
class RecordingFace:
    """Where a page would be shown: keeps what it is told."""

    stays: bool = True
    shown: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    places: dict[str, Path] = field(default_factory=dict)

    def show(self, address: str) -> None:
        self.shown.append(address)

    def announce(self, text: str) -> bool:
        self.announced.append(text)
        return self.stays

    def open_link(self, address: str) -> None:
        self.links.append(address)

    def locate(self, name: str) -> Path | None:
        return self.places.get(name)


@dataclass
class OpenWindow:
    """A bridge that runs, and its face."""

    bridge: Bridge
    face: RecordingFace
    served: asyncio.Task[int]

    def enter(self, token: str | None = None, **given: Any) -> connect:  # Any: what connect takes
        """A client, with the token that counts and the right origin, unless told otherwise."""
        door = self.bridge.door
        wanted = {
            "origin": Origin(door.origin),
            "subprotocols": [Subprotocol("chatapp"), Subprotocol(door.token if token is None else token)],
            "compression": None,
            "proxy": None,
        }
        return connect(f"ws://{door.host}/screen", **wanted | given)

    async def request(self, text: str) -> str:
        """What the server answers to bytes as they are."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.bridge.door.port)
        writer.write(text.encode("latin-1"))
        with suppress(ConnectionError):
            await writer.drain()
        answer = b""
        with suppress(ConnectionError):
            answer = await reader.read()
        writer.close()
        return answer.decode("latin-1")

    async def get(self, path: str = "/", *lines: str, host: str | None = None) -> str:
        """What the server answers to a GET."""
        head = [f"GET {path} HTTP/1.1", f"Host: {self.bridge.door.host if host is None else host}", *lines]
        return await self.request("\r\n".join(head) + "\r\n\r\n")


@asynccontextmanager
async def window(
    folder: Path, *messages: str, command: Sequence[str] = ECHO, stays: bool = True
) -> AsyncIterator[OpenWindow]:
    """A window with an app that draws what is typed; it first tells these messages."""
    face = RecordingFace(stays)
    bridge = Bridge(face, WindowState(columns=90, rows=30), folder / "dropped")
    server = await bridge.open([*command, *messages])
    served = asyncio.create_task(bridge.run(server))
    try:
        yield OpenWindow(bridge, face, served)
    finally:
        await bridge.end()
        await asyncio.wait_for(served, PATIENCE)


async def drawn(client: ClientConnection, text: str) -> bytes:
    """What the app draws, as far as this text."""
    seen = b""
    while text.encode() not in seen:
        message = await asyncio.wait_for(client.recv(), PATIENCE)
        seen += message if isinstance(message, bytes) else b""
    return seen


async def told(client: ClientConnection, kind: str) -> dict[str, Any]:  # Any: parsed JSON
    """The next message of a kind."""
    while True:
        message = await asyncio.wait_for(client.recv(), PATIENCE)
        if isinstance(message, str) and (facts := json.loads(message))["type"] == kind:
            return dict(facts)


async def closed(client: ClientConnection) -> int:
    """The code with which the server closes."""
    try:
        while True:
            await asyncio.wait_for(client.recv(), PATIENCE)
    except ConnectionClosed as end:
        return end.rcvd.code if end.rcvd else 0
