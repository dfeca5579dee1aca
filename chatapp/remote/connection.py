"""Requests to one server, and streams that can be closed at any time; redirects are not followed."""

from __future__ import annotations

import json
import queue
import re
import socket
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chatapp.remote.address import Remote
from chatapp.remote.errors import RemoteError

if TYPE_CHECKING:
    import httpx2

REACHING = 10.0
"""Seconds to connect."""
STALL = 300.0
"""Seconds without a byte before giving up: a long prompt on a slow machine takes minutes."""
TICK = 0.1
"""Seconds between two checks whether the reader still wants events."""
LARGEST_ANSWER = 16 << 20
LARGEST_STREAM = 64 << 20
LONGEST_LINE = 4 << 20
"""Maximum bytes of an answer, of a stream, and of a line of a stream."""
AHEAD = 256
"""Maximum events buffered for the reader."""
SHOWN = 300
"""Characters of a server's error message that are shown."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event of a stream."""

    data: str
    seconds: float
    """The clock when it arrived."""


class Connection:
    """A connection to one server, with its key."""

    def __init__(self, remote: Remote, key: str = "", *, stall: float = STALL, reaching: float = REACHING) -> None:
        import httpx2

        secure = remote.is_encrypted
        self.remote, self._key, self.stall = remote, key, stall
        headers = {"User-Agent": "chatapp", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        # Proxies of the environment are for other machines only; redirects could carry text and key elsewhere.
        self._client = httpx2.Client(
            headers=headers,
            timeout=httpx2.Timeout(stall, connect=reaching),
            follow_redirects=False,
            trust_env=not remote.is_here,
            verify=httpx2.create_ssl_context() if secure else False,  # slow to create, and unused for http://
            limits=httpx2.Limits(max_keepalive_connections=0),  # closing a stream must close its own connection
        )

    def __repr__(self) -> str:
        return f"Connection({self.remote.url!r})"

    def below(self, url: str) -> Connection:
        """A connection to another base URL of the same server."""
        return Connection(replace(self.remote, url=url), self._key, stall=self.stall)

    def address(self, path: str) -> str:
        """The URL of a path; a path with two leading slashes is relative to the host."""
        if path.startswith("//"):
            parts = urlsplit(self.remote.url)
            return f"{parts.scheme}://{parts.netloc}{path[1:]}"
        return self.remote.url + path

    def find(self, path: str, body: object = None) -> Any:  # Any: JSON
        """Like `ask`, but None if the server has nothing there."""
        try:
            return self.ask(path, body)
        except Refused as error:
            if error.status in (401, 403):
                raise
            return None

    def ask(self, path: str, body: object = None) -> Any:  # Any: JSON
        """The JSON answer to a GET, or to a POST if there is a body; RemoteError if the server refuses."""
        import httpx2

        method = "GET" if body is None else "POST"
        try:
            with self._client.stream(method, self.address(path), json=body) as response:
                content = _read_whole(response)
                self._check(response, content)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._explain(error) from error
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RemoteError(f"{self.remote.host} did not answer with JSON; check the URL") from error

    def stream(
        self, path: str, body: object, kind: str, headers: Mapping[str, str] | None = None
    ) -> Generator[Arrived | None, None, None]:
        """The events of an answer as they arrive, and None in between; closing it hangs up at once.

        `kind` is `events` (server-sent events) or `lines`. An answer that is a single JSON text is one event.
        RemoteError says why the server refused or broke off.
        """
        reader = _Reader(self, path, body, kind, headers or {})
        reader.start()
        try:
            while True:
                try:
                    arrived = reader.arrived.get(timeout=TICK)
                except queue.Empty:
                    yield None
                    continue
                if isinstance(arrived, Exception):
                    raise arrived
                if arrived is None:
                    return
                yield arrived
        finally:
            reader.leave()

    def _check(self, response: httpx2.Response, content: bytes) -> None:
        """Raise Refused for an answer with an error status."""
        status, host = response.status_code, self.remote.host
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            place = response.headers.get("Location", "somewhere else").partition("?")[0]
            raise Refused(
                f"{host} redirects to {place[:SHOWN]}; nothing was sent there; to use it, give that URL", status
            )
        said = self.without_key(find_message(content))
        about = f": {said}" if said else f" ({status} {response.reason_phrase})"
        if status in (401, 403):
            raise Refused(f"{host} refuses the key{about}" if self._key else f"{host} needs a key{about}", status)
        if status in (429, 503):
            again = response.headers.get("Retry-After", "")
            wait = f"; try again in {again} seconds" if again.isdecimal() else "; try again later"
            raise Refused(f"{host} is busy{about}{wait}", status, said)
        raise Refused(f"{host} {'failed' if status >= 500 else 'refuses this'}{about}", status, said)

    def _explain(self, error: Exception) -> RemoteError:
        """A connection error in words."""
        import httpx2

        host = self.remote.host
        if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return RemoteError(f"{host} does not answer; check that the server is running and the URL is right")
        if isinstance(error, httpx2.TimeoutException):
            return RemoteError(f"{host} stopped sending; try again")
        words = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split()))
        said = self.without_key(words)[:SHOWN] or type(error).__name__
        if isinstance(error, httpx2.ConnectError):
            return RemoteError(f"{host} cannot be reached ({said}); check that the server is running")
        return RemoteError(f"the connection to {host} broke ({said})")

    def without_key(self, text: str) -> str:
        """A text of the server with the key masked, should it repeat it."""
        return text.replace(self._key, "[key]") if self._key else text


class Refused(RemoteError):
    """The server answered with an error."""

    def __init__(self, message: str, status: int, said: str = "") -> None:
        """`said` is the server's own message."""
        super().__init__(message)
        self.status, self.said = status, said or message


def _read_whole(response: httpx2.Response) -> bytes:
    content = bytearray()
    for part in response.iter_bytes():
        content += part
        if len(content) > LARGEST_ANSWER:
            raise RemoteError("the server's answer is too large")
    return bytes(content)


def find_message(content: bytes) -> str:
    """The error message in an answer of any form; empty for an HTML page."""
    try:
        found: Any = json.loads(content)  # Any: JSON
    except (ValueError, RecursionError):
        text = content[: 4 * SHOWN].decode(errors="replace").strip()
        return "" if text.startswith("<") else " ".join(text.split())[:SHOWN]
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    if isinstance(found, list) and found and isinstance(found[0], dict):
        found = found[0].get("msg", found[0])
    return " ".join(str(found).split())[:SHOWN]


class _Reader(threading.Thread):
    """The thread that reads a stream, since one cannot wait for a socket and for closing at the same time."""

    def __init__(self, connection: Connection, path: str, body: object, kind: str, headers: Mapping[str, str]) -> None:
        super().__init__(name="remote", daemon=True)
        self.connection, self.path, self.body, self.kind, self.headers = connection, path, body, kind, headers
        self.arrived: queue.Queue[Arrived | Exception | None] = queue.Queue(AHEAD)
        self.left = threading.Event()
        self.lock = threading.Lock()
        self.socket: socket.socket | None = None

    def run(self) -> None:
        import httpx2

        try:
            self.read()
            last: Exception | None = None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            last = self.connection._explain(error)
        except Exception as error:  # raised again where the stream is read
            last = error
        self.put(last)

    def put(self, item: Arrived | Exception | None) -> None:
        """Pass on an item once there is room, unless nobody reads any more."""
        while not self.left.is_set():
            with suppress(queue.Full):
                return self.arrived.put(item, timeout=TICK)

    def read(self) -> None:
        client, url = self.connection._client, self.connection.address(self.path)
        traced = {"trace": self.trace}
        with client.stream("POST", url, json=self.body, headers=self.headers, extensions=traced) as response:
            if not 200 <= response.status_code < 300:
                self.connection._check(response, _read_whole(response))
            told = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if told == "application/json" and self.kind == "events":
                content = _read_whole(response)
                self.put(Arrived(content.decode("utf-8", errors="replace"), perf_counter()))
                return
            split = split_events if self.kind == "events" else split_lines
            for data in split(response.iter_raw()):
                self.put(Arrived(data, perf_counter()))
                if self.left.is_set():
                    return

    def trace(self, event: str, facts: dict[str, Any]) -> None:  # Any: what httpx2 tells
        """Get the socket as soon as it is connected, so that it can be closed before the server answers."""
        if event in ("connection.connect_tcp.complete", "proxy.start_tls.complete", "connection.start_tls.complete"):
            with self.lock:
                self.socket = facts["return_value"].get_extra_info("socket")
            if self.left.is_set():
                self.leave()

    def leave(self) -> None:
        """Close the socket; this also ends a read that is waiting."""
        self.left.set()
        with self.lock, suppress(OSError):
            if self.socket:
                self.socket.shutdown(socket.SHUT_RDWR)


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a stream without their ends, and the rest after the last one."""
    held, count = bytearray(), 0
    for part in parts:
        held += part
        count += len(part)
        if count > LARGEST_STREAM:
            raise RemoteError("the server sent too much for an answer; disconnected")
        if b"\n" in part:
            *lines, held = held.split(b"\n")
            yield from (bytes(line.rstrip(b"\r")) for line in lines)
        if len(held) > LONGEST_LINE:
            raise RemoteError("the server sent an endless line; disconnected")
    yield bytes(held.rstrip(b"\r"))


def split_lines(parts: Iterator[bytes]) -> Iterator[str]:
    """The non-empty lines of a stream; the last may lack its end."""
    for line in _lines(parts):
        if text := _decode(line).strip():
            yield text


def split_events(parts: Iterator[bytes]) -> Iterator[str]:
    """The data of server-sent events, without comments."""
    data, size = list[str](), 0
    for line in chain(_lines(parts), [b""]):  # the last event may lack its empty line
        if line.startswith((b"data:", b"error:")):
            name, _, told = _decode(line).partition(":")
            told = told.removeprefix(" ")
            data.append(f'{{"error": {told}}}' if name == "error" else told)  # llama-server's form of errors
            size += len(data[-1])
            if size > LONGEST_LINE:
                raise RemoteError("the server sent an endless event; disconnected")
        elif data and not line:
            yield "\n".join(data)
            data, size = [], 0


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RemoteError("the server sent invalid UTF-8; disconnected") from error
