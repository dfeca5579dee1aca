"""Between the page and the app: what the app draws goes to the page, what its user does comes back.

The app runs in a process of its own, with Textual's web driver: packets of a letter, a length and a payload, D for what
a terminal would get, M for a message in JSON. The page gets the first as binary frames, the second as text frames.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from chatapp.desktop.door import ENTER, RAISE, Door
from chatapp.desktop.state import WindowState
from chatapp.text.child import apart, describe_ending, parse
from chatapp.text.printable import printable

COMMAND: Final = (sys.executable, "-P", "-m", "chatapp.desktop.screen")
START: Final = b"__GANGLION__\n"
"""The line after which the packets begin."""
LARGEST_FRAME: Final = 4 * 1024 * 1024
"""Bytes of a message from the page: a dropped file has 1 MB at most, a paste may have more."""
LARGEST_PACKET: Final = 64 * 1024 * 1024
MOST_CELLS: Final = 2_000
"""Columns, and rows, of the largest window."""
SMALLEST, LARGEST = 8, 40
"""Pixels of a character."""
ALONE: Final = 30.0
"""Seconds after which an app that does nothing, and that no page shows any more, leaves."""
PATIENCE: Final = 5.0
"""Seconds that the app has to leave once its input has ended."""

Message = dict[str, Any]  # Any: parsed JSON


class Face(Protocol):
    """Where the page is shown: a native window, or a browser."""

    stays: bool
    """Whether the page is there as long as the app is: a browser's may be closed."""

    def show(self, address: str) -> None:
        """Bring the page to the front; open it where it is not to be seen."""

    def announce(self, text: str) -> bool:
        """Tell something to somebody who looks elsewhere; False: let the page do that."""

    def open_link(self, address: str) -> None:
        """Open a link that was clicked, in the user's browser."""

    def locate(self, name: str) -> Path | None:
        """Where a file lies that was just dropped; None where the page alone has it."""


class Bridge:
    """One app, one page, and the socket between them."""

    def __init__(self, face: Face, state: WindowState, uploads: Path, *, reader: bool = False) -> None:
        """Dropped files whose place nobody knows are written below `uploads`; `reader` is for screen readers."""
        self.face, self.state, self.uploads, self.reader = face, state, uploads, reader
        self.door = Door()
        self.process: Process | None = None
        self.busy = False
        """Whether the app is doing something that leaving would cut off."""
        self.entered = asyncio.Event()
        """Whether a page has ever been there."""
        self.colours: Message | None = None
        self.complaints: deque[str] = deque(maxlen=20)
        """The last lines that the app wrote on standard error."""
        self.loop: asyncio.AbstractEventLoop | None = None

    async def open(self, command: Sequence[str] = COMMAND) -> Server:
        """Start the app, and listen on this machine."""
        self.loop = asyncio.get_running_loop()
        size = {"COLUMNS": str(self.state.columns), "ROWS": str(self.state.rows)}
        self.process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(os.environ) | size, limit=2**20, **apart()
        )
        server = await serve(
            self.handle,
            "127.0.0.1",
            0,
            process_request=self.door.judge,
            subprotocols=[ENTER, RAISE],
            compression=None,
            max_size=LARGEST_FRAME,
            max_queue=64,
            open_timeout=5,
            server_header=None,
        )
        self.door.port = server.sockets[0].getsockname()[1]
        return server

    async def run(self, server: Server) -> int:
        """Serve until the app ends, which closes everything; its exit code."""
        assert self.process
        async with server:
            watching = [asyncio.create_task(self.keep_complaints())]
            if not self.face.stays:
                watching.append(asyncio.create_task(self.leave_when_alone()))
            try:
                await self.pump()
                code = await self.process.wait()
                await asyncio.wait(watching[:1], timeout=1)  # the last complaints
                await self.send({"type": "end", "text": self.describe_end(code)})
            finally:
                for task in watching:
                    task.cancel()
                await self.end()
        if code < 0:  # killed, of which it could not tell itself
            print(f"chatapp has ended ({describe_ending(code)})", file=sys.stderr, flush=True)
        return code if code >= 0 else 1

    def describe_end(self, code: int) -> str:
        """What the page shows once the app has ended."""
        if not code:
            return "chatapp has been left. This page can be closed."
        return f"chatapp has ended ({describe_ending(code)}):\n{printable(chr(10).join(self.complaints))}"

    async def end(self) -> None:
        """Let the app save what it has and leave, by the end of its input."""
        assert self.process and self.process.stdin
        if self.process.returncode is None:
            with suppress(OSError):
                self.process.stdin.close()
            try:
                await asyncio.wait_for(self.process.wait(), PATIENCE)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()

    # From the app

    async def pump(self) -> None:
        """Pass on what the app draws and tells, until it ends; a page that is slow makes it wait."""
        assert self.process and self.process.stdout
        out = self.process.stdout
        with suppress(asyncio.IncompleteReadError):
            await out.readuntil(START)
            while True:
                head = await out.readexactly(5)
                length = int.from_bytes(head[1:], "big")
                if length > LARGEST_PACKET:
                    return self.process.kill()
                payload = await out.readexactly(length)
                if head[:1] == b"D":
                    await self.draw(payload)
                elif head[:1] == b"M":
                    await self.take(parse(payload.decode(errors="replace")))

    async def draw(self, payload: bytes) -> None:
        """Send what is drawn; before the first page has come it waits, and after the last it is for nobody."""
        assert self.process
        if not self.entered.is_set():
            ended, entered = asyncio.create_task(self.process.wait()), asyncio.create_task(self.entered.wait())
            await asyncio.wait([ended, entered], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            entered.cancel()
        await self.send(payload)

    async def send(self, message: bytes | Message) -> None:
        """Send to the page, if there is one."""
        if self.door.guest:
            with suppress(ConnectionClosed):
                await self.door.guest.send(message if isinstance(message, bytes) else json.dumps(message))

    async def take(self, message: Message) -> None:
        """Do what the app tells."""
        match message:
            case {"type": "busy", "busy": bool(busy)}:
                self.busy = busy
                await self.send({"type": "busy", "busy": busy and not self.face.stays})
            case {"type": "colours"}:
                self.colours = message
                await self.send(message)
            case {"type": "announce", "text": str(text)}:
                if not self.face.announce(text):
                    await self.send({"type": "announce", "text": text})
            case {"type": "open_url", "url": str(address)} if address.startswith(("http://", "https://")):
                self.face.open_link(address)

    async def keep_complaints(self) -> None:
        """Pass on what the app writes on standard error, and keep its end."""
        assert self.process and self.process.stderr
        with suppress(ValueError):  # a line without end
            while line := await self.process.stderr.readline():
                self.complaints.append(line.decode(errors="replace").rstrip())
                print(printable(self.complaints[-1]), file=sys.stderr, flush=True)

    # From the page

    async def handle(self, connection: ServerConnection) -> None:
        """A connection that was let in: the page, or a second start."""
        if connection.subprotocol == RAISE:
            self.face.show(self.door.address)
            return
        await self.send({"type": "token", "token": self.door.token})
        await self.send({"type": "start", "zoom": self.state.zoom, "reader": self.reader})
        if self.colours:
            await self.send(self.colours)
        if self.entered.is_set():  # what was drawn before went to another page
            self.tell({"type": "repaint"})
        self.entered.set()
        with suppress(ConnectionClosed):
            async for message in connection:
                if isinstance(message, bytes):  # what was typed
                    self.write(b"D", message.decode(errors="replace").encode())
                elif not await self.hear(parse(message)):
                    await connection.close(1008)
                await self.drain()

    async def hear(self, message: Message) -> bool:
        """Do what the page tells; False: it is none of the messages that there are."""
        match message:
            case {"type": "resize", "columns": int(columns), "rows": int(rows)} if (
                0 < columns <= MOST_CELLS and 0 < rows <= MOST_CELLS
            ):
                self.state.columns, self.state.rows = columns, rows
                self.tell({"type": "resize", "width": columns, "height": rows})
            case {"type": "focus" | "blur" as kind}:
                self.tell({"type": kind})
            case {"type": "scheme", "dark": bool(dark)}:
                self.tell({"type": "scheme", "dark": dark})
            case {"type": "zoom", "size": int(size)} if SMALLEST <= size <= LARGEST:
                self.state.zoom = size
            case {"type": "file", "name": str(name), "text": str(text)}:
                try:
                    path = self.face.locate(name) or await asyncio.to_thread(self.store, name, text)
                except OSError as error:
                    self.tell({"type": "lost", "text": f"{name} cannot be kept in {self.uploads}: {error.strerror}"})
                else:
                    self.tell({"type": "drop", "path": str(path)})
            case _:
                return False
        return True

    def store(self, name: str, text: str) -> Path:
        """Write a dropped file whose place only the browser knows; its path."""
        last = name.replace("\\", "/").rpartition("/")[2]
        kept = "".join(one for one in last if one.isprintable() and one not in '"<>:|?*').strip().lstrip(".")
        self.uploads.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = first = self.uploads / (kept[:100] or "dropped")
        content, number = text.encode(errors="replace"), 1
        while path.exists() and path.read_bytes() != content:  # another file of the same name
            number += 1
            path = first.with_stem(f"{first.stem}-{number}")
        path.write_bytes(content)
        return path

    def tell(self, message: Message) -> None:
        """Tell the app something."""
        self.write(b"M", json.dumps(message).encode())

    def write(self, kind: bytes, payload: bytes) -> None:
        """Write a packet to the app."""
        assert self.process and self.process.stdin
        with suppress(OSError):
            self.process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)

    async def drain(self) -> None:
        """Wait until the app has taken what was typed."""
        assert self.process and self.process.stdin
        with suppress(OSError):
            await self.process.stdin.drain()

    async def leave_when_alone(self) -> None:
        """End the app once the browser's page has been closed for a while, and nothing is being done."""
        await self.entered.wait()
        alone = 0.0
        while alone < ALONE:
            await asyncio.sleep(1)
            alone = 0.0 if self.door.is_taken or self.busy else alone + 1
        await self.end()

    # From the window, in a thread of its own

    def close(self) -> None:
        """Ask the app to leave; it asks its user first where something is being done."""
        if self.loop:
            self.loop.call_soon_threadsafe(self.tell, {"type": "close"})


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The app's environment: a terminal of many colours, whatever terminal this was started from."""
    without = ("TMUX", "TERM_PROGRAM", "NO_COLOR", "COLUMNS", "LINES", "ROWS", "SSH_CONNECTION")
    kept = {name: value for name, value in given.items() if name not in without}
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
