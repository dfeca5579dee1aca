"""The tools of one conversation: which servers it uses, what they offer, what its user allows, and what calls give."""

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
"""What a tool may be called: a model has to spell it, and a user to read it."""
DESCRIPTION, SCHEMA = 2_000, 16_000
"""Characters of a description that a model is told, and of a schema that it can be."""
RESULT = 30_000
"""Characters of a result that a model is told."""
REST = 60.0
"""Seconds after which a server that has failed is asked again."""


@dataclass(frozen=True)
class Tool:
    """A function of a server, as it is offered now."""

    server: ToolServer
    own: str
    """What its server calls it."""
    function: Function
    """How the model is offered it; its name is another where two servers have the same."""

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.function.name

    @property
    def fingerprint(self) -> str:
        """What it was allowed as: the server, its name, and all that the model is told of it."""
        told = [self.server.place, self.own, self.function.description, self.function.parameters]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode(errors="replace")).hexdigest()


class Toolset:
    """The tools that one conversation has; nothing is started before they are looked at."""

    def __init__(
        self,
        servers: Callable[[], Mapping[str, ToolServer]],
        warn: Callable[[str], object],
        *,
        connections: Connections | None = None,
    ) -> None:
        """`servers` are those of the settings; `warn` is told what is left out, and why."""
        self.servers, self._warn, self._given = servers, warn, connections
        self.offered: Sequence[Tool] = ()
        """Those that the model was offered last."""
        self._allowed: set[str] = set()
        """The fingerprints of those that run unasked in this conversation."""
        self._known: dict[tuple[str, str], str] = {}
        """The fingerprints of those that were ever allowed, by server and name."""
        self._told: set[str] = set()
        """What was told already."""
        self._resting: dict[str, tuple[float, str]] = {}
        """Servers that have failed: until when they are not asked, and why."""
        self._lock = threading.Lock()

    @property
    def _connections(self) -> Connections:
        """Those of this process, unless others were given; few conversations ever need them."""
        if self._given is None:
            from chatapp.conversation.tools.connection import CONNECTIONS

            self._given = CONNECTIONS
        return self._given

    def find_servers(self, names: Sequence[str]) -> list[ToolServer]:
        """The servers with these names, or all; ToolError where one is not in the settings."""
        known = self.servers()
        for name in names:
            if name not in known:
                near = suggest(name, known, f"known are {', '.join(known)}" if known else "chatapp mcp add names one")
                raise ToolError(f"there is no server of tools {name!r} in settings.toml; {near}")
        return [known[name] for name in names or known]

    def warn_once(self, text: str) -> None:
        """Tell something, unless it was told before."""
        if text not in self._told:
            self._told.add(text)
            self._warn(text)

    def look(self, names: Sequence[str]) -> Sequence[Tool]:
        """What these servers offer now; those that fail are left out, which is told once each time it changes."""
        for _ in self.looking(names):
            pass
        return self.offered

    def looking(self, names: Sequence[str], beat: float | None = None) -> Generator[None, None, Sequence[Tool]]:
        """The same, where something else can be done in each beat of so many seconds."""
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
                    troubles.append(f"{told}; its tools are left out")
            for trouble in dict.fromkeys(troubles):
                if trouble not in self._told:
                    self._warn(trouble)
            self._told = set(troubles)
            self.offered = name_apart(found)
            return self.offered

    def _ask(self, name: str) -> tuple[ToolServer, Future[Sequence[Listed]]]:
        """A server, and what it will list; one that has failed just now is not asked."""
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

    def rouse(self) -> None:
        """Ask all servers again, also those that have failed just now."""
        self._resting.clear()
        self._told.clear()

    # What is called

    def find(self, name: str) -> Tool | None:
        """The tool that a call means; None where none is offered."""
        return next((one for one in self.offered if one.name == name), None)

    def is_allowed(self, tool: Tool) -> bool:
        """Whether it runs unasked: as it was when it was allowed, and in this conversation."""
        return tool.fingerprint in self._allowed

    def has_changed(self, tool: Tool) -> bool:
        """Whether it was allowed as something else."""
        before = self._known.get((tool.server.name, tool.own))
        return before is not None and before != tool.fingerprint

    def allow(self, tool: Tool) -> None:
        """Let it run unasked from now on, for as long as it stays what it is."""
        self._allowed.add(tool.fingerprint)
        self._known[tool.server.name, tool.own] = tool.fingerprint

    def forget(self) -> None:
        """Ask again before anything runs."""
        self._allowed.clear()

    def call(self, tool: Tool, call: ToolCall) -> Future[Result]:
        """What a call gives, never an error; it can be cancelled, and its server is ended then."""
        connection = self._connections[tool.server]

        async def give() -> Result:
            try:
                return read_result(await connection.give(tool.own, json.loads(call.arguments)))
            except Exception as error:
                if not (told := one_line(error)):
                    raise
                return Result(f"The call failed: {told}", "failed")

        return connection.run(give())

    def close(self, names: Sequence[str]) -> None:
        """End servers; they are started again when they are wanted."""
        known = self.servers()
        for name in names:
            if name in known:
                self._connections[known[name]].close()


def read_tools(server: ToolServer, listed: Sequence[Listed], warn: Callable[[str], object]) -> list[Tool]:
    """The tools of a server that can be offered; the others, and why, are told."""
    if server.tools:
        listed = [one for one in listed if one.name in server.tools]
        if missing := [name for name in server.tools if name not in {one.name for one in listed}]:
            warn(f"{server.name} has no tool {shorten(missing[0])}, which [mcp.{server.name}] names")
    elif len(listed) > TOOLS:
        raise ToolError(
            f"{server.name} offers more than {TOOLS} tools, which no model could be told of: "
            f"name some, as tools = [...] in [mcp.{server.name}]"
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
    """The tools under names that no two have: that of the server goes before where two servers have the same."""
    often = Counter(one.own for one in tools)
    names = [one.own if often[one.own] == 1 else f"{one.server.name}.{one.own}" for one in tools]
    return [replace(one, function=replace(one.function, name=name)) for one, name in zip(tools, names, strict=True)]


def read_result(result: CallToolResult) -> Result:
    """What a call gave, as text: of pictures and sounds, what they are."""
    parts = [read_part(one) for one in result.content]
    text = "\n".join(parts)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text) > RESULT:
        text = f"{text[:RESULT]}\n[the other {len(text) - RESULT:,} characters were left out]"
    return Result(text or "(nothing)", "failed" if result.is_error else "done")


def read_part(part: Any) -> str:  # Any: one of the protocol's kinds of content
    """A part of a result."""
    match part.type:
        case "text":
            return str(part.text)
        case "image" | "audio":
            return f"[{part.type}, {part.mime_type}: it cannot be shown to the model]"
        case "resource_link":
            return f"[{part.name}: {part.uri}]"
    return str(getattr(part.resource, "text", "")) or f"[{part.resource.uri}: it is no text]"
