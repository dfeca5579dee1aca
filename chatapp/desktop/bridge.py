"""Connects the page and the app: the app's drawing goes to the page, the user's input comes back.

The app is a child process with Textual's web driver. It sends packets of a letter, a length and a payload: D for
terminal output, M for a JSON message. The page gets the first as binary frames and the second as text frames.
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
"""The line after which packets begin."""
LARGEST_FRAME: Final = 4 * 1024 * 1024
"""Maximum bytes of a message from the page: a dropped file has at most 1 MB, a paste may be larger."""
LARGEST_PACKET: Final = 64 * 1024 * 1024
MOST_CELLS: Final = 2_000
"""Maximum columns and rows of a window."""
SMALLEST, LARGEST = 8, 40
"""Minimum and maximum font size in pixels."""
ALONE: Final = 30.0
"""Seconds after which an idle app without a page ends."""
PATIENCE: Final = 5.0
"""Seconds the app gets to exit after its input has ended."""

Message = dict[str, Any]  # Any: parsed JSON


class Face(Protocol):
    """Where the page is shown: a native window, or a browser."""

    stays: bool
    """Whether the page exists as long as the app; a browser's page may be closed."""

    def show(self, address: str) -> None:
        """Bring the page to the front, opening it if necessary."""

    def announce(self, text: str) -> bool:
        """Show a notification; False if the page should do so instead."""

    def open_link(self, address: str) -> None:
        """Open a clicked link in the user's browser."""

    def locate(self, name: str) -> Path | None:
        """The path of a file just dropped; None if only the page has its content."""


class Bridge:
    """One app, one page, and the socket between them."""

    def __init__(self, face: Face, state: WindowState, uploads: Path, *, reader: bool = False) -> None:
        """Dropped files without a known path are written to `uploads`; `reader` turns on screen-reader mode."""
        self.face, self.state, self.uploads, self.reader = face, state, uploads, reader
        self.door = Door()
        self.process: Process | None = None
        self.busy = False
        """Whether the app is doing something that closing would interrupt."""
        self.entered = asyncio.Event()
        """Set once a page has connected."""
        self.colours: Message | None = None
        self.complaints: deque[str] = deque(maxlen=20)
        """The last lines of the app's standard error."""
        self.loop: asyncio.AbstractEventLoop | None = None

    async def open(self, command: Sequence[str] = COMMAND) -> Server:
        """Start the app, and listen on the loopback interface."""
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
        """Serve until the app ends; returns its exit code."""
        assert self.process
        async with server:
            watching = [asyncio.create_task(self.keep_complaints())]
            if not self.face.stays:
                watching.append(asyncio.create_task(self.leave_when_alone()))
            try:
                await self.pump()
                code = await self.process.wait()
                await asyncio.wait(watching[:1], timeout=1)  # let it read the last lines of standard error
                await self.send({"type": "end", "text": self.describe_end(code)})
            finally:
                for task in watching:
                    task.cancel()
                await self.end()
        if code < 0:  # killed by a signal, so it could not report an error itself
            print(f"chatapp exited ({describe_ending(code)})", file=sys.stderr, flush=True)
        return code if code >= 0 else 1

    def describe_end(self, code: int) -> str:
        """The text the page shows after the app has ended."""
        if not code:
            return "chatapp has quit. You can close this page."
        return f"chatapp exited ({describe_ending(code)}):\n{printable(chr(10).join(self.complaints))}"

    async def end(self) -> None:
        """Close the app's input, so that it saves and exits; kill it if that takes too long."""
        assert self.process and self.process.stdin
        if self.process.returncode is None:
            with suppress(OSError):
                self.process.stdin.close()
            try:
                await asyncio.wait_for(self.process.wait(), PATIENCE)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()

    # From the app to the page

    async def pump(self) -> None:
        """Pass on the app's packets until it ends; a slow page slows the app down."""
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
        """Send terminal output to the page; waits until the first page has connected."""
        assert self.process
        if not self.entered.is_set():
            ended, entered = asyncio.create_task(self.process.wait()), asyncio.create_task(self.entered.wait())
            await asyncio.wait([ended, entered], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            entered.cancel()
        await self.send(payload)

    async def send(self, message: bytes | Message) -> None:
        """Send a message to the page, if one is connected."""
        if self.door.guest:
            with suppress(ConnectionClosed):
                await self.door.guest.send(message if isinstance(message, bytes) else json.dumps(message))

    async def take(self, message: Message) -> None:
        """Handle a message from the app."""
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
        """Pass on the app's standard error, and remember its end."""
        assert self.process and self.process.stderr
        with suppress(ValueError):  # a line longer than the limit
            while line := await self.process.stderr.readline():
                self.complaints.append(line.decode(errors="replace").rstrip())
                print(printable(self.complaints[-1]), file=sys.stderr, flush=True)

    # From the page to the app

    async def handle(self, connection: ServerConnection) -> None:
        """Handle an accepted connection: the page, or a second start of chatapp."""
        if connection.subprotocol == RAISE:
            self.face.show(self.door.address)
            return
        await self.send({"type": "token", "token": self.door.token})
        await self.send({"type": "start", "zoom": self.state.zoom, "reader": self.reader})
        if self.colours:
            await self.send(self.colours)
        if self.entered.is_set():  # everything so far was drawn on another page
            self.send_to_app({"type": "repaint"})
        self.entered.set()
        with suppress(ConnectionClosed):
            async for message in connection:
                if isinstance(message, bytes):  # what was typed
                    self.write(b"D", message.decode(errors="replace").encode())
                elif not await self.hear(parse(message)):
                    await connection.close(1008)
                await self.drain()

    async def hear(self, message: Message) -> bool:
        """Handle a message from the page; returns False if it is invalid."""
        match message:
            case {"type": "resize", "columns": int(columns), "rows": int(rows)} if (
                0 < columns <= MOST_CELLS and 0 < rows <= MOST_CELLS
            ):
                self.state.columns, self.state.rows = columns, rows
                self.send_to_app({"type": "resize", "width": columns, "height": rows})
            case {"type": "focus" | "blur" as kind}:
                self.send_to_app({"type": kind})
            case {"type": "scheme", "dark": bool(dark)}:
                self.send_to_app({"type": "scheme", "dark": dark})
            case {"type": "zoom", "size": int(size)} if SMALLEST <= size <= LARGEST:
                self.state.zoom = size
            case {"type": "file", "name": str(name), "text": str(text)}:
                try:
                    path = self.face.locate(name) or await asyncio.to_thread(self.store, name, text)
                except OSError as error:
                    self.send_to_app(
                        {"type": "lost", "text": f"{name} cannot be saved in {self.uploads}: {error.strerror}"}
                    )
                else:
                    self.send_to_app({"type": "drop", "path": str(path)})
            case _:
                return False
        return True

    def store(self, name: str, text: str) -> Path:
        """Write a dropped file whose path is unknown; returns the new path."""
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

    def send_to_app(self, message: Message) -> None:
        """Send a message to the app."""
        self.write(b"M", json.dumps(message).encode())

    def write(self, kind: bytes, payload: bytes) -> None:
        """Send a packet to the app."""
        assert self.process and self.process.stdin
        with suppress(OSError):
            self.process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)

    async def drain(self) -> None:
        """Wait until the app has read its input."""
        assert self.process and self.process.stdin
        with suppress(OSError):
            await self.process.stdin.drain()

    async def leave_when_alone(self) -> None:
        """End the app once the browser's page has been closed for a while and the app is idle."""
        await self.entered.wait()
        alone = 0.0
        while alone < ALONE:
            await asyncio.sleep(1)
            alone = 0.0 if self.door.is_taken or self.busy else alone + 1
        await self.end()

    # Called from the window's thread

    def close(self) -> None:
        """Ask the app to exit; it asks the user first if it is busy."""
        if self.loop:
            self.loop.call_soon_threadsafe(self.send_to_app, {"type": "close"})


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The app's environment: a true-colour terminal, whatever terminal chatapp was started from."""
    without = ("TMUX", "TERM_PROGRAM", "NO_COLOR", "COLUMNS", "LINES", "ROWS", "SSH_CONNECTION")
    kept = {name: value for name, value in given.items() if name not in without}
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
