"""Render chat templates in a process of their own, with limits on time and memory."""

import atexit
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from backends.errors import UserError
from chatapp.generation.memory import resident_memory
from chatapp.text.child import Watch, apart, describe_ending

FLAG = "--render-templates"
"""The argument that starts a frozen chatapp as the rendering process."""
FROZEN = getattr(sys, "frozen", False)
COMMAND = (sys.executable, *((FLAG,) if FROZEN else ("-P", str(Path(__file__).with_name("sandbox.py")))))
"""The file itself, as running the module would import the whole package."""
BEAT = 0.02
"""Seconds between two checks of the process's time and memory."""
HELD = 64 << 20
"""A process that holds more bytes of memory after a request is not reused."""
SHARE = 24
"""Bytes of memory per character of a conversation, which exists as JSON, parsed, rendered and as JSON again."""
MARKUP = 4
"""Output characters per character of a conversation's JSON: templates add a few dozen to each message."""
PACE = 2_000_000
"""Characters of a conversation for which one more second is allowed."""


class RenderingError(UserError):
    """A conversation could not be rendered; the message says what its template does instead."""


@dataclass(frozen=True)
class Limits:
    """Limits for all renderings of one conversation."""

    seconds: float = 3.0
    """Processor time, plus what PACE allows for long conversations."""
    patience: float = 7.0
    """Further seconds of waiting, while other programs use the processor."""
    memory: int = 400_000_000
    """Bytes, plus what SHARE allows for long conversations."""
    length: int = 1_000_000
    """Characters of output, plus what MARKUP allows; each takes a hundred bytes as a token."""


class Renderer:
    """A process that renders templates, one request at a time; it is started, and restarted, when needed."""

    def __init__(self, limits: Limits | None = None, command: Sequence[str] = COMMAND):
        self.limits, self.command = limits or Limits(), tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._busy = self._interrupted = False
        atexit.register(self.close)

    def start(self) -> None:
        """Start the process, which gets ready by itself, unless it runs."""
        if self._lock.acquire(blocking=False):
            try:
                self._ready()
            except RenderingError:
                pass  # reported when something is rendered
            finally:
                self._lock.release()

    def render(
        self, source: str, conversations: Sequence[Sequence[Mapping[str, object]]], names: Mapping[str, object]
    ) -> list[str]:
        """Render each conversation; `names` are the template's other variables."""
        messages = json.dumps(conversations)
        memory = self.limits.memory + SHARE * len(messages)
        seconds = self.limits.seconds + len(messages) / PACE
        length = self.limits.length + MARKUP * len(messages)
        line = f"[{seconds}, {memory}, {length}, {json.dumps([source, names])}, {messages}]\n".encode()
        with self._lock:
            self._interrupted, self._busy = False, True
            try:
                said = self._exchange(line, seconds, memory)
            except BaseException:  # its late answer would be taken for the next request's
                self.close()
                raise
            finally:
                self._busy = False
            if self._process and resident_memory(self._process.pid) > HELD:
                self.close()  # fragmented memory would count for the next request
        if said.get("exceeded") == "length":
            raise RenderingError(f"renders to more than {length:,} characters; fix the template")
        if "exceeded" in said:
            raise RenderingError(_memory_exceeded(memory))
        if "refused" in said:
            raise RenderingError(f"refuses this conversation: {said['refused']}")
        texts: list[str] = said["texts"]
        return texts

    def interrupt(self) -> None:
        """End the current rendering with KeyboardInterrupt; may be called in a signal handler."""
        self._interrupted = self._busy
        if self._busy and self._process:
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        if process := self._process:
            self._process = None
            process.kill()
            process.wait()
            for pipe in process.stdin, process.stdout:
                with suppress(OSError):
                    if pipe:
                        pipe.close()

    def _ready(self) -> "subprocess.Popen[bytes]":
        if self._process and self._process.poll() is not None:
            self.close()
        if not self._process:
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            try:
                self._process = subprocess.Popen(
                    self.command, stdin=pipe, stdout=pipe, stderr=nowhere, **apart(window=False)
                )
            except OSError as error:
                raise RenderingError(f"cannot be rendered: the process for it did not start ({error})") from error
        return self._process

    def _exchange(self, line: bytes, seconds: float, memory: int) -> dict[str, Any]:
        process = self._ready()
        if self._interrupted:  # before there was a process
            raise KeyboardInterrupt
        end = time.monotonic() + seconds + self.limits.patience

        def look() -> str:
            if time.monotonic() > end:
                return "time"
            return "memory" if resident_memory(process.pid) > memory else ""

        with Watch(process, look, BEAT) as watch:  # where the system does not limit it
            said = exchange(process.stdin, process.stdout, line)
        if self._interrupted:
            raise KeyboardInterrupt
        if said.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(said)
            return answer
        code = process.wait()
        if watch.reason == "memory":
            raise RenderingError(_memory_exceeded(memory))
        if watch.reason == "time" or (sys.platform != "win32" and code == -signal.SIGPROF):
            raise RenderingError(f"takes more than {seconds:.1f} seconds; fix the template")
        raise RenderingError(f"cannot be rendered: the process for it ended ({describe_ending(code)})")


def exchange(stdin: IO[bytes] | None, stdout: IO[bytes] | None, line: bytes) -> bytes:
    """The process's answer to a line; an incomplete line if it has ended."""
    assert stdin and stdout
    try:
        stdin.write(line)
        stdin.flush()
        return stdout.readline()
    except OSError:
        return b""


def _memory_exceeded(memory: int) -> str:
    return f"takes more than {memory // 1_000_000:,} MB of memory; fix the template"


RENDERER = Renderer()
"""The renderer of this process, for all models."""
