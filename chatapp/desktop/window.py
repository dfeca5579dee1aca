"""A native window: the system's web view, by pywebview, which shows the page."""

import asyncio
import importlib.util
import logging
import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backends.errors import UserError
from chatapp.desktop import state as kept
from chatapp.desktop.bridge import Bridge
from chatapp.desktop.state import SingleInstance, WindowState

READY = 10.0
"""Seconds that the server has to begin."""
SMALLEST = (360, 240)
BACKGROUND = "#0f121a"
"""Until the page is there."""
NO_WEBKIT = (
    "WebKitGTK, or GObject introspection, is not installed (Debian and Ubuntu: gir1.2-webkit2-4.1 and "
    "libgirepository-1.0-1, or python3-gi where pip installed chatapp; Fedora: webkit2gtk4.1 and gobject-introspection)"
)


class NativeWindow:
    """The window, as the bridge sees it; pywebview's own thread is the main one."""

    stays = True

    def __init__(self, state: WindowState) -> None:
        self.state = state
        self.over = False
        """Whether the app has ended, after which closing is not asked about any more."""
        self.frame: tuple[float, float] | None = None
        """How far the places that are told lie from those that are asked for."""
        self.native: Any = None  # Any: pywebview's window, imported late
        self.notifier: Any = None  # Any: desktop-notifier's, imported late
        self.telling: set[asyncio.Task[None]] = set()

    def open(self, bridge: Bridge) -> None:
        """Show the window, in the main thread, until it is closed."""
        import webview
        from webview.dom import _dnd_state

        _dnd_state["num_listeners"] += 1  # where files lie that are dropped; the public way needs eval, which we forbid
        size = self.state
        self.native = webview.create_window(
            "chatapp",
            bridge.door.address,
            width=size.width,
            height=size.height,
            x=size.x,
            y=size.y,
            maximized=size.maximized,
            min_size=SMALLEST,
            background_color=BACKGROUND,
            text_select=True,
        )
        events = self.native.events
        events.closing += lambda: self.over or self.ask(bridge)
        events.resized += self.note_size
        events.moved += self.note_place
        events.maximized += lambda: setattr(size, "maximized", True)
        events.restored += lambda: setattr(size, "maximized", False)
        try:
            webview.start(private_mode=True)
        except webview.errors.WebViewException as error:
            raise UserError(
                f"the web view does not start: {error}; open the page in your browser: chatapp desktop --browser"
            ) from error

    def ask(self, bridge: Bridge) -> bool:
        """Let the app decide about closing; it ends by itself, and the window with it."""
        bridge.close()
        return False

    def note_size(self, width: float, height: float) -> None:
        """Remember a size that the user gave the window, in which it is opened the next time."""
        if not self.state.maximized:
            self.state.width, self.state.height = int(width), int(height)

    def note_place(self, x: float, y: float) -> None:
        """Remember a place that the user gave the window, as the one at which it is opened again.

        Some systems tell where the window's inside lies, and are asked where its frame is to be:
        the first place that is told shows the difference.
        """
        if self.frame is None:
            wanted = (self.state.x, self.state.y)
            self.frame = (x - wanted[0], y - wanted[1]) if wanted[0] is not None and wanted[1] is not None else (0, 0)
        if not self.state.maximized:
            self.state.x, self.state.y = int(x - self.frame[0]), int(y - self.frame[1])

    def leave(self) -> None:
        """Close the window: the app has ended."""
        self.over = True
        if self.native:
            self.native.destroy()

    def show(self, address: str) -> None:
        """Bring the window to the front."""
        if self.native:
            self.native.restore()
            self.native.show()

    def announce(self, text: str) -> bool:
        """Let the system tell something; the web view cannot."""
        task = asyncio.create_task(self.notify(text))
        self.telling.add(task)
        task.add_done_callback(self.telling.discard)
        return True

    async def notify(self, text: str) -> None:
        """Tell something by the system's notifications; where it has none, nobody is told."""
        with suppress(Exception):  # whatever the buses of foreign systems raise
            from desktop_notifier import DesktopNotifier

            logging.getLogger("desktop_notifier").setLevel(logging.CRITICAL)  # it would print where there is no bus
            self.notifier = self.notifier or DesktopNotifier(app_name="chatapp")
            await self.notifier.send(title="chatapp", message=text)

    def open_link(self, address: str) -> None:
        """Open a link in the user's browser."""
        webbrowser.open(address)

    def locate(self, name: str) -> Path | None:
        """Where a file lies that was just dropped; pywebview knows, the page does not."""
        from webview.dom import _dnd_state

        for found in [*_dnd_state["paths"]]:
            if unquote(found[0]) == name:
                _dnd_state["paths"].remove(found)
                return Path(unquote(found[1]))
        return None


def find_lack() -> str:
    """What a window lacks here, in words; nothing where it lacks nothing. GTK is not loaded for that."""
    if not importlib.util.find_spec("webview"):
        return "pywebview is not installed (pip install pywebview)"
    if sys.platform != "linux":
        return ""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "there is no display"
    if importlib.util.find_spec("qtpy"):  # pywebview's other view, which brings what it needs
        return ""
    try:
        import gi
    except ImportError:  # also where GLib's libraries are missing, on which it stands
        return NO_WEBKIT
    for version in ("4.1", "4.0"):  # those that pywebview knows
        with suppress(ValueError):
            gi.require_version("WebKit2", version)
            return ""
    return NO_WEBKIT


def open_window(home: Path, running: SingleInstance, command: Sequence[str], *, reader: bool) -> int:
    """Open the window and stay until its user leaves; the app's exit code."""
    state = kept.read(home / "window.json")
    window, ready, codes = NativeWindow(state), threading.Event(), [1]
    bridge = Bridge(window, state, home / "dropped", reader=reader)

    async def serve() -> None:
        server = await bridge.open(command)
        running.tell(bridge.door.port, bridge.door.raising)
        ready.set()
        codes[0] = await bridge.run(server)

    def work() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()
            window.leave()

    thread = threading.Thread(target=work, name="bridge")
    thread.start()
    try:
        import webview  # noqa: F401  # while the app starts

        ready.wait(READY)
        window.open(bridge)
    except BaseException:
        window.over = True
        raise
    finally:
        if bridge.loop and not bridge.loop.is_closed():
            with suppress(RuntimeError):  # it closed just now
                asyncio.run_coroutine_threadsafe(bridge.end(), bridge.loop)
        thread.join()
        kept.write(home / "window.json", state)
    for complaint in bridge.complaints if codes[0] else ():
        print(complaint, file=sys.stderr)
    return codes[0]
