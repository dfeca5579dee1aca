"""A child process that prints lines of JSON; and how it ended if it printed no result."""

from __future__ import annotations  # Triton's containers of 2024 have Python 3.10, and get this module in an export

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self


class Child:
    """A child process, which Ctrl+C in the terminal does not reach; it ends with its `with`."""

    def __init__(self, command: Sequence[str], request: str | None = None) -> None:
        """Start it; it reads a line with the request, and end of input when this process has ended."""
        import tempfile

        self._complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # see kill
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                command,
                stdin=nothing if request is None else pipe,
                stdout=pipe,
                stderr=self._complaints,
                encoding="utf-8",
                errors="replace",
                **apart(),
            )
        except OSError:
            self._complaints.close()
            raise
        if self.process.stdin:
            with suppress(OSError):  # it died at once, and its exit code tells why
                self.process.stdin.write(f"{request}\n")
                self.process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in self.process.stdin, self.process.stdout, self._complaints:
            with suppress(OSError):
                if pipe:
                    pipe.close()

    def lines(self) -> Iterator[str]:
        """Its output lines, as they come."""
        yield from self.process.stdout or ()

    def complaint(self) -> str:
        """The last line of its standard error."""
        self._complaints.seek(0)
        return next((line.strip() for line in reversed(self._complaints.read().splitlines()) if line.strip()), "")

    def interrupt(self) -> None:
        """Interrupt it, as Ctrl+C would."""
        with suppress(OSError):
            if sys.platform == "win32":
                self.process.send_signal(signal.CTRL_BREAK_EVENT)
            else:
                self.process.send_signal(signal.SIGINT)

    def wait(self, patience: float) -> None:
        """Wait up to `patience` seconds for it to end after an interrupt; a second one could disturb its ending."""
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            end_group(self.process)


class Watch:
    """Ends a process when `look` returns a reason to; it is called every `beat` seconds within a `with`."""

    def __init__(self, process: subprocess.Popen[Any], look: Callable[[], str], beat: float):
        self.process, self.look, self.beat = process, look, beat
        self.reason = ""
        """The reason, if it was ended."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self.beat):
            if reason := self.look():
                self.reason = reason
                self.process.kill()
                return


def end_with_parent() -> None:
    """End this process, whatever it is doing, when its parent has ended."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def apart(*, window: bool = True) -> dict[str, Any]:  # Any: what Popen takes
    """Arguments for Popen that detach a process from the terminal's group, and perhaps from the console."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | (0 if window else subprocess.CREATE_NO_WINDOW)}
    return {"start_new_session": True}


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process with its own group, and all that it started; on Windows, only the process."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether a process with this id runs, perhaps another user's."""
    if pid <= 0:  # os.kill takes these for groups
        return False
    if sys.platform == "win32":  # where signal 0 would end it
        import ctypes

        system = ctypes.WinDLL("kernel32", use_last_error=True)
        if not (handle := system.OpenProcess(0x00100000, False, pid)):  # SYNCHRONIZE
            return ctypes.get_last_error() == 5  # ERROR_ACCESS_DENIED
        ended = system.WaitForSingleObject(handle, 0) == 0
        system.CloseHandle(handle)
        return not ended
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def parse(line: str) -> dict[str, Any]:  # Any: parsed JSON
    """Parse a line's JSON object; {} for other output, such as a runtime's."""
    with suppress(ValueError, RecursionError):
        facts = json.loads(line)
        if isinstance(facts, dict):
            return facts
    return {}


def describe_ending(code: int) -> str:
    """How a process ended: a signal's name, or its exit code."""
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"
