"""A native window that shows the page in the system's web view, using pywebview."""

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
"""Seconds to wait for the server."""
SMALLEST = (360, 240)
BACKGROUND = "#0f121a"
"""Shown until the page has loaded."""
NO_WEBKIT = (
    "WebKitGTK, or GObject introspection, is not installed (Debian and Ubuntu: gir1.2-webkit2-4.1 and "
    "libgirepository-1.0-1, or python3-gi where pip installed chatapp; Fedora: webkit2gtk4.1 and gobject-introspection)"
)


class NativeWindow:
    """The window; pywebview requires the main thread."""

    stays = True

    def __init__(self, state: WindowState) -> None:
        self.state = state
        self.over = False
        """Whether the app has ended, so that closing needs no question."""
        self.frame: tuple[float, float] | None = None
        """The offset between positions reported by the system and positions requested from it."""
        self.native: Any = None  # Any: pywebview's window, imported late
        self.notifier: Any = None  # Any: desktop-notifier's, imported late
        self.telling: set[asyncio.Task[None]] = set()

    def open(self, bridge: Bridge) -> None:
        """Show the window until it is closed; runs on the main thread."""
        import webview
        from webview.dom import _dnd_state

        _dnd_state["num_listeners"] += 1  # to get paths of dropped files; the public API needs eval, which we forbid
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
                f"cannot start the web view: {error}; to use your browser instead: chatapp desktop --browser"
            ) from error

    def ask(self, bridge: Bridge) -> bool:
        """Let the app decide about closing; when it ends, the window closes."""
        bridge.close()
        return False

    def note_size(self, width: float, height: float) -> None:
        """Remember the size for the next start."""
        if not self.state.maximized:
            self.state.width, self.state.height = int(width), int(height)

    def note_place(self, x: float, y: float) -> None:
        """Remember the position for the next start.

        Some systems report the position of the content but take that of the frame:
        the first report reveals the difference.
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
        """Show a system notification, which the web view cannot do."""
        task = asyncio.create_task(self.notify(text))
        self.telling.add(task)
        task.add_done_callback(self.telling.discard)
        return True

    async def notify(self, text: str) -> None:
        """Show a system notification, if the system has any."""
        with suppress(Exception):  # notification services fail in many ways
            from desktop_notifier import DesktopNotifier

            logging.getLogger("desktop_notifier").setLevel(logging.CRITICAL)  # it logs if there is no D-Bus
            self.notifier = self.notifier or DesktopNotifier(app_name="chatapp")
            await self.notifier.send(title="chatapp", message=text)

    def open_link(self, address: str) -> None:
        """Open a link in the user's browser."""
        webbrowser.open(address)

    def locate(self, name: str) -> Path | None:
        """The path of a file just dropped, which pywebview knows but the page does not."""
        from webview.dom import _dnd_state

        for found in [*_dnd_state["paths"]]:
            if unquote(found[0]) == name:
                _dnd_state["paths"].remove(found)
                return Path(unquote(found[1]))
        return None


def find_lack() -> str:
    """What is missing to open a window, in words; empty if nothing is. GTK is not loaded to find out."""
    if not importlib.util.find_spec("webview"):
        return "pywebview is not installed (pip install pywebview)"
    if sys.platform != "linux":
        return ""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "there is no display"
    if importlib.util.find_spec("qtpy"):  # pywebview's other web view, which has all it needs
        return ""
    try:
        import gi
    except ImportError:  # also if GLib's libraries are missing
        return NO_WEBKIT
    for version in ("4.1", "4.0"):  # those that pywebview supports
        with suppress(ValueError):
            gi.require_version("WebKit2", version)
            return ""
    return NO_WEBKIT


def open_window(home: Path, running: SingleInstance, command: Sequence[str], *, reader: bool) -> int:
    """Open the window and stay until the user leaves; returns the app's exit code."""
    state = kept.read(home / "window.json")
    window, ready, codes = NativeWindow(state), threading.Event(), [1]
    bridge = Bridge(window, state, home / "dropped", reader=reader)

    async def serve() -> None:
        server = await bridge.open(command)
        running.publish(bridge.door.port, bridge.door.raising)
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
        import webview  # noqa: F401  # slow, so imported while the app starts

        ready.wait(READY)
        window.open(bridge)
    except BaseException:
        window.over = True
        raise
    finally:
        if bridge.loop and not bridge.loop.is_closed():
            with suppress(RuntimeError):  # the loop has just closed
                asyncio.run_coroutine_threadsafe(bridge.end(), bridge.loop)
        thread.join()
        kept.write(home / "window.json", state)
    for complaint in bridge.complaints if codes[0] else ():
        print(complaint, file=sys.stderr)
    return codes[0]
