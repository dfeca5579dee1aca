"""A second start: the window that is there comes to the front."""

from __future__ import annotations

import time

from backends.errors import UserError
from chatapp.desktop.door import RAISE, SOCKET
from chatapp.desktop.state import SingleInstance

PATIENCE = 5.0
"""Seconds that the first window has to tell how it is raised."""


def raise_window(running: SingleInstance) -> None:
    """Ask the window that is there to come to the front."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect
    from websockets.typing import Origin, Subprotocol

    end = time.monotonic() + PATIENCE
    while True:
        if told := running.read():
            port, secret = told
            host = f"127.0.0.1:{port}"
            try:
                with connect(
                    f"ws://{host}{SOCKET}",
                    origin=Origin(f"http://{host}"),
                    subprotocols=[RAISE, Subprotocol(secret)],
                    open_timeout=2,
                    proxy=None,
                ):
                    return
            except (OSError, WebSocketException):
                pass  # it is not listening yet, or not any more
        if time.monotonic() > end:
            raise UserError(f"chatapp is running, but its window does not answer; end it, or delete {running.path}")
        time.sleep(0.05)
