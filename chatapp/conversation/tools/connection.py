"""A connection to one tool server, opened on first use and reopened if it ended; one thread serves them all."""

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
"""Seconds a server may take to start, or to list its tools."""
CLOSING = 4.0
"""Seconds to wait for a server to end."""
PAGES = 20
"""Maximum pages of a tool list."""
MISSING = "tools need the package mcp, which is not installed: pip install mcp"
Found = TypeVar("Found")


@cache
def thread() -> asyncio.AbstractEventLoop:
    """The event loop of the one thread that runs all connections."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tools", daemon=True).start()
    return loop


class Connection:
    """A connection to a tool server; its methods return futures, which can be cancelled."""

    def __init__(self, server: ToolServer, *, opening: float = OPENING) -> None:
        self.server, self.opening = server, opening
        self.flow = Flow()
        self._lock = asyncio.Lock()
        """Held while a session is opened."""
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._stop: asyncio.Event | None = None
        self._ending: set[asyncio.Task[None]] = set()
        """Tasks of sessions that are closing."""

    # Called from any thread

    def list_tools(self) -> Future[Sequence[Tool]]:
        """The server's tools, in its order."""
        return self.run(self._list())

    def close(self) -> Future[None]:
        """End the server; it is opened again on next use."""
        return self.run(self._close())

    def run(self, act: Coroutine[Any, Any, Found]) -> Future[Found]:
        """Run a coroutine on the connections' thread."""
        return asyncio.run_coroutine_threadsafe(act, thread())

    # On the thread of the event loop

    async def _list(self) -> Sequence[Tool]:
        again = self._client is not None
        try:
            async with asyncio.timeout(self.opening):
                try:
                    return await list_pages(await self._open())
                except Exception as error:
                    if not (again and is_closed(find_cause(error))):
                        raise
                    self._leave()  # the old session had ended: open a new one
                    return await list_pages(await self._open())
        except BaseException as error:
            raise self._fail(error, "listed no tools", self.opening) from error

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:  # Any: JSON
        """Call a tool and return its result; ToolError says why there is none."""
        try:
            client = await self._open()
            calling = asyncio.create_task(client.call_tool(name, arguments))
            calling.add_done_callback(lambda one: one.cancelled() or one.exception())
            try:
                async with asyncio.timeout(self.server.seconds):
                    return await asyncio.shield(calling)  # a cancelled caller leaves at once, before the next call
            finally:
                calling.cancel()
        except RuntimeError as error:  # the package raises it for a result that breaks the tool's output schema
            raise ToolError(f"{self.server.name} broke its word: {shorten(str(error))}") from error
        except BaseException as error:
            raise self._fail(error, "gave no result", self.server.seconds) from error

    async def _open(self) -> Client:
        """The open session, opened first if there is none or it has failed; concurrent callers wait for it."""
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
        """Keep a session open until `stop`; one task must both enter and leave the client, as anyio requires."""
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
        """Let the session close in the background."""
        task, stop, client = self._task, self._stop, self._client
        self._task = self._stop = self._client = None
        if task and stop:
            stop.set()
            if not client:  # it is still being opened
                task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _close(self) -> None:
        """Close the session and wait for it."""
        self._leave()
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=CLOSING)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSING)

    def _fail(self, error: BaseException, what: str, seconds: float) -> BaseException:
        """Turn an error into one for the user, and close the session unless the server merely refused."""
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
            wrote = f"; it wrote {rubbish!r}, which is not a protocol message" if rubbish else ""
            return ToolError(f"{name} {what} within {seconds:g} seconds, so it was stopped{shorten(wrote)}")
        if isinstance(cause, httpx2.HTTPError):
            return ToolError(f"{name} does not answer at {self.server.url}: {shorten(str(cause))}")
        if is_closed(cause):
            return ToolError(f"{name} {what}: it closed the connection")
        return ToolError(f"{name} {what}: {shorten(describe(cause))}")


async def list_pages(client: Client) -> Sequence[Tool]:
    """The tools of a server, collected from its pages until there are more than can be offered."""
    found, cursor = list[Any](), None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) > TOOLS:
            break
    return found


def import_client() -> type[Client]:
    """The client class of the package mcp; ToolError if it is not installed."""
    try:
        from mcp.client import Client
    except ImportError as error:
        if error.name and error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ToolError(MISSING) from error
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # its log lines would garble the screen
    found: type[Client] = Client
    return found


def is_refusal(error: BaseException) -> bool:
    """Whether the server answered with an error but is still running."""
    if isinstance(error, ToolError):  # ours; the package mcp may not even be installed
        return False
    from mcp.shared.exceptions import MCPError
    from mcp_types import REQUEST_TIMEOUT

    return isinstance(error, MCPError) and error.error.code != REQUEST_TIMEOUT and not is_closed(error)


def is_closed(error: BaseException) -> bool:
    """Whether the connection was closed."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED


def describe(error: BaseException) -> str:
    """The message of an error raised by the package mcp."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer breaks the protocol ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    return f"{type(error).__name__}: {error}"


def find_cause(error: BaseException) -> BaseException:
    """The first error of an exception group, however nested."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Connections:
    """The tool servers open in this process; they end with it."""

    def __init__(self) -> None:
        self._open: dict[ToolServer, Connection] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def __getitem__(self, server: ToolServer) -> Connection:
        """The connection to a server; it opens on first use."""
        with self._lock:
            if server not in self._open:
                self._open[server] = Connection(server)
            return self._open[server]

    def close(self) -> None:
        """Close all of them at the same time."""
        with self._lock:
            closing = [one.close() for one in self._open.values()]
            self._open.clear()
        for one in closing:
            with suppress(Exception):
                one.result(3 * CLOSING)


CONNECTIONS = Connections()
"""The connections of this process, shared by all conversations."""
