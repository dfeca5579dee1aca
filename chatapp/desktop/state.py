"""The window's saved state, and how a second start finds the running one."""

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from backends.errors import UserError
from chatapp.desktop.door import RAISE, SOCKET
from chatapp.text.child import parse
from chatapp.text.files import write_whole
from model_store.locks import lock

LARGEST = 100_000
"""Larger than any size or position of a window."""
PATIENCE = 5.0
"""Seconds to wait for the first window to become reachable."""


@dataclass
class WindowState:
    """Size and position in pixels, font size, and size in characters."""

    width: int = 1180
    height: int = 760
    x: int | None = None
    y: int | None = None
    maximized: bool = False
    zoom: int = 14
    """Font size in pixels."""
    columns: int = 130
    rows: int = 42


def read(path: Path) -> WindowState:
    """The saved state; defaults for what is missing or invalid."""
    state, kept = WindowState(), {}
    with suppress(OSError, UnicodeDecodeError):
        kept = parse(path.read_text("utf-8"))
    for field in fields(WindowState):
        value = kept.get(field.name)
        wanted = bool if field.name == "maximized" else int
        if type(value) is wanted and -LARGEST < value < LARGEST:
            setattr(state, field.name, value)
    return state


def write(path: Path, state: WindowState) -> None:
    """Save the state; failures are ignored."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(state)) + "\n")


class SingleInstance:
    """Ensures one window per user: the holder of the lock writes how it can be raised to a file."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.path = home / "desktop.json"
        self.handle = os.open(home / "desktop.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.is_first = lock(self.handle)
        """Whether there is no other window."""

    def publish(self, port: int, secret: str) -> None:
        """Write how this window can be raised, to a private file."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"port": port, "secret": secret}, file)

    def read(self) -> tuple[int, str] | None:
        """Port and secret of the running window; None if not written yet."""
        with suppress(OSError, UnicodeDecodeError):
            told = parse(self.path.read_text("utf-8"))
            if isinstance(port := told.get("port"), int) and isinstance(secret := told.get("secret"), str):
                return port, secret
        return None

    def raise_window(self) -> None:
        """Ask the running window to come to the front."""
        end = time.monotonic() + PATIENCE
        while True:
            if told := self.read():
                host, protocols = f"127.0.0.1:{told[0]}", [RAISE, Subprotocol(told[1])]
                url, origin = f"ws://{host}{SOCKET}", Origin(f"http://{host}")
                try:
                    with connect(url, origin=origin, subprotocols=protocols, open_timeout=2, proxy=None):
                        return
                except (OSError, WebSocketException):
                    pass  # it is not listening yet, or has stopped
            if time.monotonic() > end:
                raise UserError(f"chatapp is running, but its window does not respond; stop it, or delete {self.path}")
            time.sleep(0.05)

    def close(self) -> None:
        """Release the lock for the next window."""
        if self.is_first:
            with suppress(OSError):
                self.path.unlink()
        os.close(self.handle)
