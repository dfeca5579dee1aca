"""What a window keeps for its next start, and where a second start finds it."""

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
"""More than any size or place of a window."""
PATIENCE = 5.0
"""Seconds that the first window has to tell how it is raised."""


@dataclass
class WindowState:
    """A window's size and place in pixels, its characters, and how many of these it shows."""

    width: int = 1180
    height: int = 760
    x: int | None = None
    y: int | None = None
    maximized: bool = False
    zoom: int = 14
    """Pixels of a character."""
    columns: int = 130
    rows: int = 42


def read(path: Path) -> WindowState:
    """The state as it was kept; the usual one where nothing was, or nonsense."""
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
    """Keep the state; a disk that does not take it is no reason to trouble anyone."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(state)) + "\n")


class SingleInstance:
    """The one window of a user: whoever holds the lock is it, and tells in the file how it can be raised."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.path = home / "desktop.json"
        self.handle = os.open(home / "desktop.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.is_first = lock(self.handle)
        """Whether there is no other window."""

    def tell(self, port: int, secret: str) -> None:
        """Write how this window is raised, for this user's eyes only."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"port": port, "secret": secret}, file)

    def read(self) -> tuple[int, str] | None:
        """The port and the secret of the window that is there; None while it has told neither."""
        with suppress(OSError, UnicodeDecodeError):
            told = parse(self.path.read_text("utf-8"))
            if isinstance(port := told.get("port"), int) and isinstance(secret := told.get("secret"), str):
                return port, secret
        return None

    def raise_window(self) -> None:
        """Ask the window that is there to come to the front."""
        end = time.monotonic() + PATIENCE
        while True:
            if told := self.read():
                host, protocols = f"127.0.0.1:{told[0]}", [RAISE, Subprotocol(told[1])]
                url, origin = f"ws://{host}{SOCKET}", Origin(f"http://{host}")
                try:
                    with connect(url, origin=origin, subprotocols=protocols, open_timeout=2, proxy=None):
                        return
                except (OSError, WebSocketException):
                    pass  # it is not listening yet, or not any more
            if time.monotonic() > end:
                raise UserError(f"chatapp is running, but its window does not answer; end it, or delete {self.path}")
            time.sleep(0.05)

    def close(self) -> None:
        """Make room for the next window."""
        if self.is_first:
            with suppress(OSError):
                self.path.unlink()
        os.close(self.handle)
