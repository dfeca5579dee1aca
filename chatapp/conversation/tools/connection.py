"""One server of tools, opened when it is first wanted and again where it has ended; all wait on one thread for it."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from pydantic import ValidationError

from chatapp.conversation.tools import ToolError, shorten
from chatapp.conversation.tools.flow import TOOLS, Flow
from chatapp.settings.tool_servers import ToolServer
from chatapp.text.errors import one_line

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import CallToolResult, Tool

OPENING = 30.0
"""Seconds that a server may take to be ready, or to list its tools."""
CLOSING = 4.0
"""Seconds to end it."""
PAGES = 20
"""Pages in which it may list them."""
MISSING = "tools need the package mcp, which is not installed: pip install mcp"
Found = TypeVar("Found")


@cache
def thread() -> asyncio.AbstractEventLoop:
    """The loop of the thread that all servers are waited for in."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tools", daemon=True).start()
    return loop


class Connection:
    """A server of tools; what it is asked is answered by futures, which can be cancelled."""

    def __init__(self, server: ToolServer, *, opening: float = OPENING) -> None:
        self.server, self.opening = server, opening
        self.flow = Flow()
        self._lock = asyncio.Lock()
        """Held while a session is begun."""
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._stop: asyncio.Event | None = None
        self._ending: set[asyncio.Task[None]] = set()
        """Sessions that are to end, and have not yet."""

    # In any thread

    def list_tools(self) -> Future[Sequence[Tool]]:
        """Its tools, in the order in which it lists them."""
        return self.run(self._list())

    def close(self) -> Future[None]:
        """End it; it is opened again when it is wanted."""
        return self.run(self._close())

    def run(self, act: Coroutine[Any, Any, Found]) -> Future[Found]:
        """Do something in its thread."""
        return asyncio.run_coroutine_threadsafe(act, thread())

    # In its thread

    async def _list(self) -> Sequence[Tool]:
        again = self._client is not None
        try:
            async with asyncio.timeout(self.opening):
                try:
                    return await list_pages(await self._open())
                except Exception as error:
                    if not (again and is_closed(find_cause(error))):
                        raise
                    self._leave()  # it had ended, or was left just now: it is opened anew
                    return await list_pages(await self._open())
        except BaseException as error:
            raise self._fail(error, "listed no tools", self.opening) from error

    async def give(self, name: str, arguments: dict[str, Any]) -> CallToolResult:  # Any: JSON
        """What a tool gives; ToolError tells why it gave nothing."""
        try:
            client = await self._open()
            calling = asyncio.create_task(client.call_tool(name, arguments))
            calling.add_done_callback(lambda one: one.cancelled() or one.exception())
            try:
                async with asyncio.timeout(self.server.seconds):
                    return await asyncio.shield(calling)  # who cancels leaves at once, before anybody calls again
            finally:
                calling.cancel()
        except RuntimeError as error:  # the package's word on a result that is not what was promised
            raise ToolError(f"{self.server.name} broke its word: {shorten(str(error))}") from error
        except BaseException as error:
            raise self._fail(error, "gave no result", self.server.seconds) from error

    async def _open(self) -> Client:
        """The session, begun where there is none, or where it has ended; whoever wants it meanwhile waits for it."""
        async with self._lock:
            if self._client and not self.flow.fault:
                return self._client
            self._leave()
            self._stop = stop = asyncio.Event()
            self.flow = Flow(on_fault=stop.set)
            opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(stop, opened))
            try:
                async with asyncio.timeout(self.opening):
                    self._client = await asyncio.shield(opened)
            except BaseException:
                opened.cancel()
                raise
            return self._client

    async def _hold(self, stop: asyncio.Event, opened: asyncio.Future[Client]) -> None:
        """Keep a session open until it is to end; one task does both, as its package wants."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._make_client(stack))
                if not opened.done():
                    opened.set_result(client)
                await stop.wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)
            else:
                self.flow.fault = self.flow.fault or shorten(str(find_cause(error)))

    async def _make_client(self, stack: AsyncExitStack) -> Client:
        client_class = import_client()
        if self.server.command:
            from chatapp.conversation.tools.stdio import open_program

            return client_class(open_program(self.server, self.flow), cache=None)
        from mcp.client.streamable_http import streamable_http_client

        from chatapp.conversation.tools.flow import LARGEST
        from chatapp.conversation.tools.http import find_remote, open_client

        web = await stack.enter_async_context(open_client(self.server, self.flow))
        url = find_remote(self.server).url
        return client_class(streamable_http_client(url, http_client=web, max_sse_event_size=LARGEST), cache=None)

    def _leave(self) -> None:
        """Let the session end, behind whatever comes next."""
        task, stop, client = self._task, self._stop, self._client
        self._task = self._stop = self._client = None
        if task and stop:
            stop.set()
            if not client:  # it is still being opened
                task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _close(self) -> None:
        """End it, and wait for that."""
        self._leave()
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=CLOSING)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSING)

    def _fail(self, error: BaseException, what: str, seconds: float) -> BaseException:
        """The error for the user; a server that failed is ended, and opened again when it is wanted."""
        cause, name = find_cause(error), self.server.name
        if isinstance(cause, asyncio.CancelledError):
            self._leave()
            return cause
        if is_refusal(cause):
            return ToolError(f"{name} refuses: {shorten(str(cause))}")
        fault, rubbish = self.flow.fault, self.flow.rubbish
        self._leave()
        if isinstance(cause, ToolError) or (one_line(cause) and not isinstance(cause, OSError)):
            return cause
        if fault:
            return ToolError(f"{name} {shorten(fault)}")
        if isinstance(cause, TimeoutError):
            wrote = f"; it wrote {rubbish!r}, which is no message of the protocol" if rubbish else ""
            return ToolError(f"{name} {what} within {seconds:g} seconds, and was ended{shorten(wrote)}")
        if isinstance(cause, httpx2.HTTPError):
            return ToolError(f"{name} cannot be reached at {self.server.url}: {shorten(str(cause))}")
        if is_closed(cause):
            return ToolError(f"{name} {what}: it has ended the connection")
        return ToolError(f"{name} {what}: {shorten(describe(cause))}")


async def list_pages(client: Client) -> Sequence[Tool]:
    """The tools of a server, of which it may tell a part at a time; no more than anybody wants."""
    found, cursor = list[Any](), None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) > TOOLS:
            break
    return found


def import_client() -> type[Client]:
    """The client of the protocol's package; ToolError where that is not installed."""
    try:
        from mcp.client import Client
    except ImportError as error:
        if error.name and error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ToolError(MISSING) from error
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # it would write into the screen
    found: type[Client] = Client
    return found


def is_refusal(error: BaseException) -> bool:
    """Whether a server has answered with an error, and goes on."""
    if isinstance(error, ToolError):  # of ours: perhaps that the package is missing
        return False
    from mcp.shared.exceptions import MCPError
    from mcp_types import REQUEST_TIMEOUT

    return isinstance(error, MCPError) and error.error.code != REQUEST_TIMEOUT and not is_closed(error)


def is_closed(error: BaseException) -> bool:
    """Whether the connection has ended."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED


def describe(error: BaseException) -> str:
    """What an error of the protocol's package says."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer is not of the protocol ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    return f"{type(error).__name__}: {error}"


def find_cause(error: BaseException) -> BaseException:
    """The first error of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Connections:
    """The servers that are open in this process, which end with it."""

    def __init__(self) -> None:
        self._open: dict[ToolServer, Connection] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def __getitem__(self, server: ToolServer) -> Connection:
        """The connection to a server, opened once it is asked something."""
        with self._lock:
            if server not in self._open:
                self._open[server] = Connection(server)
            return self._open[server]

    def close(self) -> None:
        """End all that are open, at the same time."""
        with self._lock:
            closing = [one.close() for one in self._open.values()]
            self._open.clear()
        for one in closing:
            with suppress(Exception):
                one.result(3 * CLOSING)


CONNECTIONS = Connections()
"""Of this process, for all its conversations."""
