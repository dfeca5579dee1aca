"""A tool server that is a local program: minimal environment, bounded output, and killed with its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from chatapp.conversation.tools import ToolError
from chatapp.conversation.tools.flow import Flood, Flow
from chatapp.settings.tool_servers import ToolServer
from chatapp.text.child import apart, describe_ending

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

USUAL = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
)
"""The environment variables that a program needs to run; the second and third lines are for Windows."""
GRACE = 1.0
"""Seconds a program gets to exit by itself, and again after SIGTERM."""
COMPLAINT = 4_000
"""Bytes kept of the end of its standard error."""
GUARD = "read -r _ || kill -s KILL -- -$0"
"""The shell script that watches over a program: it kills the program's group if its own input ends without a line."""


def environment(server: ToolServer) -> dict[str, str]:
    """The environment of a server: the usual variables, those it is passed, and its own."""
    if missing := [name for name in server.passed if name not in os.environ]:
        raise ToolError(
            f"{server.name} needs {missing[0]}, which is not set; set it, or remove it from pass in [mcp.{server.name}]"
        )
    names = (*USUAL, *server.passed)
    return {name: os.environ[name] for name in names if name in os.environ} | dict(server.env)


@asynccontextmanager
async def open_program(server: ToolServer, flow: Flow) -> AsyncIterator[TransportStreams]:
    """Start a server and yield its message streams in the form that the package mcp takes."""
    pipe = subprocess.PIPE
    command, own = list(server.command), environment(server)
    try:
        process = await anyio.open_process(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=own, **apart(window=False)
        )
    except (OSError, ValueError) as error:
        told = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolError(
            f"cannot start {server.name}: {server.command[0]}: {told}; correct command in [mcp.{server.name}]"
        ) from error
    program = Program(process, flow)
    try:
        program.guard = start_guard(process.pid)
        async with anyio.create_task_group() as group:
            to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
            group.start_soon(program.complain)
            group.start_soon(program.read, to_session)
            group.start_soon(program.write, from_session)
            try:
                yield from_server, to_server
            finally:
                with anyio.CancelScope(shield=True):
                    for stream in (from_server, to_server, to_session, from_session):
                        await stream.aclose()
                    await program.end()
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await program.end()


def start_guard(group: int) -> subprocess.Popen[bytes] | None:
    """Start a shell that kills a program and its children should this process be killed; None on Windows.

    PR_SET_PDEATHSIG would not do: it fires when the thread ends, and reaches only the program itself.
    """
    if sys.platform == "win32":
        return None
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(["/bin/sh", "-c", GUARD, str(group)], stdin=pipe, stdout=nothing, stderr=nothing, **apart())


class Program:
    """A running server program, with its pipes as message streams."""

    def __init__(self, process: Process, flow: Flow) -> None:
        self.process, self.flow = process, flow
        self.complaint = b""
        """The end of its standard error."""
        self.guard: subprocess.Popen[bytes] | None = None
        """Kills it if this process dies."""

    async def read(self, session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass its messages to the session until it ends or sends too much."""
        assert self.process.stdout
        async with session:
            try:
                async for line in self._lines(self.process.stdout):
                    if message := self._parse(line):
                        await session.send(message)
                await self._tell_end()
            except Flood as flood:
                self.flow.fault = f"{flood}; it was stopped"
                self.kill()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                self.flow.fault = self.flow.fault or "was stopped"

    async def _lines(self, stdout: ByteReceiveStream) -> AsyncIterator[bytes]:
        """The lines of its output; Flood if one is too long."""
        rest = bytearray()
        async for piece in stdout:
            self.flow.take(size=len(piece))
            first, *others = piece.split(b"\n")
            rest += first
            for other in others:
                yield bytes(rest)
                rest[:] = other
            self.flow.check(len(rest))

    def _parse(self, line: bytes) -> SessionMessage | None:
        """The message on a line; None if the line is not one, such as a greeting."""
        self.flow.take(messages=1)
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            if line.strip():
                self.flow.rubbish = self.flow.rubbish or line[:200].decode(errors="replace").strip()
            return None

    async def write(self, session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the session's messages to its input, one per line."""
        assert self.process.stdin
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async with session:
                async for said in session:
                    line = said.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self.process.stdin.send(f"{line}\n".encode())

    async def complain(self) -> None:
        """Keep the end of its standard error."""
        assert self.process.stderr
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for piece in self.process.stderr:
                self.complaint = (self.complaint + piece)[-COMPLAINT:]

    async def _tell_end(self) -> None:
        """Record how it ended, or that it closed its output."""
        code = await self._wait(GRACE)
        lines = [line for line in self.complaint.decode(errors="replace").splitlines() if line.strip()]
        last = f": {lines[-1].strip()[:200]}" if lines else ""
        how = "closed its output" if code is None else f"ended ({describe_ending(code)})"
        self.flow.fault = self.flow.fault or f"{how}{last}"

    async def _wait(self, seconds: float) -> int | None:
        """Its exit code; None if still running after so many seconds. A child of its own may hold its pipes open."""
        with anyio.move_on_after(seconds):
            while self.process.returncode is None:
                await anyio.sleep(0.01)
        return self.process.returncode

    async def end(self) -> None:
        """End it and all it started, in the protocol's order: close its input, SIGTERM, SIGKILL."""
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            if self.process.stdin:
                await self.process.stdin.aclose()
        if await self._wait(GRACE) is None:
            self._signal(signal.SIGTERM)
            await self._wait(GRACE)
        self.kill()
        await self._wait(GRACE)
        if self.guard:
            self.guard.communicate(b"\n")  # a line tells it that there is nothing left to kill
            self.guard = None
        for pipe in (self.process.stdout, self.process.stderr):
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                if pipe:
                    await pipe.aclose()
        # No public method closes the transport if another process holds a pipe or a pipe was not read to its end.
        transport = getattr(getattr(self.process, "_process", None), "_transport", None)
        if close := getattr(transport, "close", None):
            with suppress(OSError):
                close()

    def kill(self) -> None:
        """Kill it and everything it started."""
        self._signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, number)
