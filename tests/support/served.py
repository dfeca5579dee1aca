"""A server on a free port, in a thread of its own, and what clients of tests send it."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2

from chatapp.server.app import SPOKEN
from chatapp.server.protocol import Protocol
from chatapp.server.service import Service
from chatapp.server.settings import ServerSettings
from chatapp.server.start import Server, make_server
from chatapp.workspace import Workspace
from support.patience import PATIENCE
from support.stand_in_home import Home


@dataclass
class Served:
    """A running server."""

    service: Service
    server: Server
    port: int
    client: httpx2.Client
    said: list[str] = field(default_factory=list)
    """Lines of its log."""

    def post(self, path: str, **body: Any) -> httpx2.Response:
        """Send a body in JSON."""
        return self.client.post(path, json=body)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Ask for something."""
        return self.client.get(path, headers=headers)

    def events(self, path: str, **body: Any) -> list[str]:
        """The data of each event of a stream."""
        text = self.post(path, **body | {"stream": True}).text
        assert text.endswith("\n\n")
        return [block.rpartition("data: ")[2] for block in text.removesuffix("\n\n").split("\n\n")]

    def chunks(self, path: str, **body: Any) -> list[Any]:
        """The same, parsed, up to the mark of the end."""
        *events, last = self.events(path, **body)
        assert last == "[DONE]"
        found = [json.loads(event) for event in events]
        assert events == [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in found]
        return found

    def exchange(self, sent: bytes) -> bytes:
        """All that comes back for some bytes, up to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            parts = list[bytes]()
            with suppress(ConnectionResetError, BrokenPipeError):  # by a server that reads no more
                connection.sendall(sent)
                parts.extend(iter(lambda: connection.recv(65536), b""))
            return b"".join(parts)


@contextmanager
def serving(workspace: Workspace, **settings: Any) -> Iterator[Served]:
    """A server of a home, which ends with the block; a stand-in gets a folder of its own."""
    with TemporaryDirectory() as folder:
        if isinstance(workspace, Home):
            workspace.home = Path(folder)
        with running(workspace, ServerSettings(**{"port": 0, "drain": PATIENCE, **settings})) as served:
            yield served


def running(workspace: Workspace, settings: ServerSettings) -> AbstractContextManager[Served]:
    """A server that ends with the block."""
    said: list[str] = []
    return serving_with(Service(workspace, settings, None, said.append), said=said)


@contextmanager
def serving_with(
    service: Service, protocols: Sequence[Protocol] = SPOKEN, said: list[str] | None = None
) -> Iterator[Served]:
    """A server of a service, which ends with the block."""
    ready = threading.Event()
    found: list[Any] = []

    def run() -> None:
        async def main() -> None:
            server = make_server(service, protocols)

            def tell(port: int) -> None:
                found.extend([server, port])
                ready.set()

            server.ready = tell
            await server.serve()

        asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(PATIENCE)
    server, port = found
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False) as client:
            yield Served(service, server, port, client, [] if said is None else said)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
