"""The tools of one conversation: its servers, what they offer, what the user allows, and the results of calls."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from backends.suggest import suggest
from chatapp.conversation.tools import Result, ToolError, shorten
from chatapp.conversation.tools.flow import TOOLS
from chatapp.generation import ToolCall
from chatapp.generation.text.tools import Function
from chatapp.settings.tool_servers import ToolServer
from chatapp.text.errors import one_line
from chatapp.text.printable import clean_paste

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mcp_types import CallToolResult
    from mcp_types import Tool as Listed

    from chatapp.conversation.tools.connection import Connections

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A valid tool name: a model has to spell it, and a user to read it."""
DESCRIPTION, SCHEMA = 2_000, 16_000
"""Characters of a description that are passed on, and the maximum length of an argument schema."""
RESULT = 30_000
"""Characters of a result that the model gets."""
REST = 60.0
"""Seconds before a server that failed is asked again."""


@dataclass(frozen=True)
class Tool:
    """A tool of a server, as it is offered now."""

    server: ToolServer
    own: str
    """Its name on its server."""
    function: Function
    """The tool as the model is offered it; renamed if two servers have the same name."""

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.function.name

    @property
    def fingerprint(self) -> str:
        """A hash of the server, the name and everything the model is told; permission is tied to it."""
        told = [self.server.place, self.own, self.function.description, self.function.parameters]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode(errors="replace")).hexdigest()


class Toolset:
    """The tools of one conversation; servers start on first use."""

    def __init__(
        self,
        servers: Callable[[], Mapping[str, ToolServer]],
        warn: Callable[[str], object],
        *,
        connections: Connections | None = None,
    ) -> None:
        """`servers` reads the settings; `warn` is called with what is left out, and why."""
        self.servers, self._warn, self._given = servers, warn, connections
        self.offered: Sequence[Tool] = ()
        """The tools that the model was offered last."""
        self._allowed: set[str] = set()
        """Fingerprints of the tools that run without asking in this conversation."""
        self._known: dict[tuple[str, str], str] = {}
        """The fingerprint under which each tool was last allowed, by server and name."""
        self._told: set[str] = set()
        """Warnings already given."""
        self._resting: dict[str, tuple[float, str]] = {}
        """Servers that failed: until when they are not asked again, and why."""
        self._lock = threading.Lock()

    @property
    def _connections(self) -> Connections:
        """The connections given, or else this process's, imported late because few conversations need them."""
        if self._given is None:
            from chatapp.conversation.tools.connection import CONNECTIONS

            self._given = CONNECTIONS
        return self._given

    def find_servers(self, names: Sequence[str]) -> list[ToolServer]:
        """The servers with these names (all of them if none is named); ToolError for an unknown name."""
        known = self.servers()
        for name in names:
            if name not in known:
                near = suggest(name, known, f"choose from {', '.join(known)}" if known else "see chatapp mcp add")
                raise ToolError(f"unknown MCP server {name!r} in settings.toml; {near}")
        return [known[name] for name in names or known]

    def warn_once(self, text: str) -> None:
        """Warn, unless this warning was given before."""
        if text not in self._told:
            self._told.add(text)
            self._warn(text)

    def look(self, names: Sequence[str]) -> Sequence[Tool]:
        """The tools these servers offer now; a failing server is left out, with one warning per change."""
        for _ in self.looking(names):
            pass
        return self.offered

    def looking(self, names: Sequence[str], beat: float | None = None) -> Generator[None, None, Sequence[Tool]]:
        """The same as a generator, which yields every `beat` seconds while it waits."""
        from concurrent.futures import wait

        with self._lock:
            found, troubles = list[Tool](), list[str]()
            listings = [(name, self._ask(name)) for name in names]
            for name, (server, listing) in listings:
                try:
                    while not wait([listing], beat).done:
                        yield
                    found += read_tools(server, listing.result(), troubles.append)
                except Exception as error:
                    if not (told := one_line(error)):
                        raise
                    self._resting.setdefault(name, (time.monotonic() + REST, told))
                    troubles.append(f"{told}; continuing without its tools")
            for trouble in dict.fromkeys(troubles):
                if trouble not in self._told:
                    self._warn(trouble)
            self._told = set(troubles)
            self.offered = name_apart(found)
            return self.offered

    def _ask(self, name: str) -> tuple[ToolServer, Future[Sequence[Listed]]]:
        """A server and the future list of its tools; a server that failed recently is not asked."""
        from concurrent.futures import Future

        until, trouble = self._resting.get(name, (0.0, ""))
        server, failed = ToolServer(name), Future[Any]()
        try:
            (server,) = self.find_servers([name])
            if time.monotonic() < until:
                raise ToolError(trouble)
        except ToolError as error:
            failed.set_exception(error)
            return server, failed
        self._resting.pop(name, None)
        return server, self._connections[server].list_tools()

    def retry_failed(self) -> None:
        """Forget failures, so that every server is asked again."""
        self._resting.clear()
        self._told.clear()

    # Calls

    def find(self, name: str) -> Tool | None:
        """The offered tool with this name, or None."""
        return next((one for one in self.offered if one.name == name), None)

    def is_allowed(self, tool: Tool) -> bool:
        """Whether the tool may run without asking: it was allowed in this conversation and has not changed since."""
        return tool.fingerprint in self._allowed

    def has_changed(self, tool: Tool) -> bool:
        """Whether the tool was allowed before, but has changed since."""
        before = self._known.get((tool.server.name, tool.own))
        return before is not None and before != tool.fingerprint

    def allow(self, tool: Tool) -> None:
        """Let the tool run without asking from now on, until it changes."""
        self._allowed.add(tool.fingerprint)
        self._known[tool.server.name, tool.own] = tool.fingerprint

    def forget(self) -> None:
        """Revoke all permissions: ask before each tool again."""
        self._allowed.clear()

    def call(self, tool: Tool, call: ToolCall) -> Future[Result]:
        """Run a tool: a future Result, never an exception; cancelling it ends the server."""
        connection = self._connections[tool.server]

        async def answer() -> Result:
            try:
                return read_result(await connection.call_tool(tool.own, json.loads(call.arguments)))
            except Exception as error:
                if not (told := one_line(error)):
                    raise
                return Result(f"The call failed: {told}", "failed")

        return connection.run(answer())

    def close(self, names: Sequence[str]) -> None:
        """Stop servers; they are started again when needed."""
        known = self.servers()
        for name in names:
            if name in known:
                self._connections[known[name]].close()


def read_tools(server: ToolServer, listed: Sequence[Listed], warn: Callable[[str], object]) -> list[Tool]:
    """The tools of a server that can be offered; `warn` is told about each of the others."""
    if server.tools:
        listed = [one for one in listed if one.name in server.tools]
        if missing := [name for name in server.tools if name not in {one.name for one in listed}]:
            warn(f"{server.name} has no tool {shorten(missing[0])}, which [mcp.{server.name}] names")
    elif len(listed) > TOOLS:
        raise ToolError(
            f"{server.name} offers more than {TOOLS} tools, the limit; "
            f"choose some with tools = [...] in [mcp.{server.name}]"
        )
    found = dict[str, Tool]()
    for one in listed:
        schema = one.input_schema
        if not NAME.fullmatch(one.name):
            warn(f"{server.name} has a tool with the name {shorten(repr(one.name[:40]))}, which is left out")
        elif one.name in found:
            warn(f"{server.name} has two tools {one.name}; the first is taken")
        elif len(json.dumps(schema)) > SCHEMA or not isinstance(schema, dict):
            warn(f"{server.name} needs more than {SCHEMA:,} characters for the arguments of {one.name}; it is left out")
        elif one.execution and one.execution.task_support == "required":
            warn(f"{server.name} does {one.name} only as a task, which nobody here would ask after; it is left out")
        else:
            description = clean_paste(one.description or "")[:DESCRIPTION]
            found[one.name] = Tool(server, one.name, Function(one.name, description or None, schema))
    return list(found.values())


def name_apart(tools: Sequence[Tool]) -> list[Tool]:
    """The tools with unique names: SERVER.NAME if two servers have the same name."""
    often = Counter(one.own for one in tools)
    names = [one.own if often[one.own] == 1 else f"{one.server.name}.{one.own}" for one in tools]
    return [replace(one, function=replace(one.function, name=name)) for one, name in zip(tools, names, strict=True)]


def read_result(result: CallToolResult) -> Result:
    """The result of a call as text; images and audio are only described."""
    parts = [read_part(one) for one in result.content]
    text = "\n".join(parts)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text) > RESULT:
        text = f"{text[:RESULT]}\n[{len(text) - RESULT:,} more characters were left out]"
    return Result(text or "(nothing)", "failed" if result.is_error else "done")


def read_part(part: Any) -> str:  # Any: one of the protocol's kinds of content
    """One part of a result as text."""
    match part.type:
        case "text":
            return str(part.text)
        case "image" | "audio":
            return f"[{part.type}, {part.mime_type}: it cannot be shown to the model]"
        case "resource_link":
            return f"[{part.name}: {part.uri}]"
    return str(getattr(part.resource, "text", "")) or f"[{part.resource.uri}: it is no text]"
