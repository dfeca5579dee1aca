"""Shows the page in the user's browser, if there is no web view."""

import asyncio
import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from chatapp.desktop import state as kept
from chatapp.desktop.bridge import Bridge
from chatapp.desktop.state import SingleInstance

LEAD = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>chatapp</title>
<meta http-equiv="refresh" content="0; url={address}"><a href="{address}">chatapp</a>
"""


class BrowserPage:
    """A page in the user's browser."""

    stays = False

    def __init__(self, folder: Path) -> None:
        """`folder` must be private to the user."""
        self.folder = folder

    def show(self, address: str) -> None:
        """Open the page through a private file that redirects: command lines are visible to other users."""
        path = self.folder / "chatapp.html"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(LEAD.format(address=html.escape(address)))
        if not webbrowser.open(path.as_uri()):
            print(f"No browser found. Open this file in one: {path}", file=sys.stderr, flush=True)

    def announce(self, text: str) -> bool:
        """False: browsers have their own notifications."""
        return False

    def open_link(self, address: str) -> None:
        """Open a link in the browser."""
        webbrowser.open(address)

    def locate(self, name: str) -> Path | None:
        """None: browsers do not reveal paths."""
        return None


def is_there() -> bool:
    """Whether a browser is installed."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def open_page(home: Path, running: SingleInstance, command: Sequence[str], *, reader: bool) -> int:
    """Open the page and stay until the user leaves; returns the app's exit code."""
    state = kept.read(home / "window.json")

    async def serve(folder: Path) -> int:
        page = BrowserPage(folder)
        bridge = Bridge(page, state, home / "dropped", reader=reader)
        server = await bridge.open(command)
        running.publish(bridge.door.port, bridge.door.raising)
        page.show(bridge.door.address)
        print(f"The page is at {bridge.door.origin}; to quit: Ctrl+Q there, or Ctrl+C here.", flush=True)
        return await bridge.run(server)

    with tempfile.TemporaryDirectory(prefix="chatapp-") as folder:
        try:
            return asyncio.run(serve(Path(folder)))
        finally:
            kept.write(home / "window.json", state)
