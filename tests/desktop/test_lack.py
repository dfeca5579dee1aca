"""What `chatapp desktop` does where no window can be opened: it says so, and the page comes in the browser."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from chatapp.desktop.window import find_lack
from support.patience import PATIENCE
from support.typist import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the view comes with the system")


def install(monkeypatch: pytest.MonkeyPatch, name: str, found: bool) -> ModuleType:
    """Let a module be installed that is a stand-in, or not be installed."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, name, module if found else None)
    return module


@pytest.mark.parametrize(
    ("modules", "versions", "display", "lack"),
    [
        ("webview gi", ["4.1"], "DISPLAY", ""),
        ("webview gi", ["4.0"], "WAYLAND_DISPLAY", ""),
        ("webview qtpy", [], "DISPLAY", ""),
        ("gi", ["4.1"], "DISPLAY", "pywebview is not installed"),
        ("webview gi", ["4.1"], "", "no display"),
        ("webview gi", ["6.0"], "DISPLAY", "gir1.2-webkit2-4.1"),
        ("webview", [], "DISPLAY", "python3-gi"),
    ],
)
def test_what_a_window_lacks(
    modules: str, versions: Sequence[str], display: str, lack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(name: str, version: str) -> None:
        if version not in versions:
            raise ValueError(f"Namespace {name} not available for version {version}")

    for name in ("webview", "gi", "qtpy"):
        module = install(monkeypatch, name, name in modules.split())
        if name == "gi":
            module.require_version = require  # type: ignore[attr-defined]  # a stand-in
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, ":0" if name == display else "")
    assert lack in find_lack() and bool(lack) == bool(find_lack())


def start(home: Path, *arguments: str, **more: str) -> "subprocess.Popen[str]":
    """`chatapp desktop` where there is no display."""
    without = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    given = {name: value for name, value in os.environ.items() if name not in without}
    given |= {"CHATAPP_HOME": str(home), **more}
    command = [sys.executable, "-m", "chatapp", "desktop", *arguments]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_the_page_opens_where_no_window_can(tmp_path: Path) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" >{seen}.new; mv {seen}.new {seen}\n')
    browser.chmod(0o700)
    with start(tmp_path / "home", BROWSER=str(browser)) as process:
        await until(seen.exists)
        page = Path(seen.read_text().strip().removeprefix("file://"))
        assert "http://127.0.0.1:" in page.read_text()
        with start(tmp_path / "home", "builtin", BROWSER=str(browser)) as second:
            assert "is already open" in (await asyncio.to_thread(second.communicate, timeout=PATIENCE))[1]
        process.send_signal(signal.SIGINT)
        _, complaints = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
    assert complaints.splitlines()[0].startswith("No window: ")
    assert complaints.splitlines()[0].endswith(" Opening a page in your browser instead.")
    assert process.returncode == 130


def test_where_there_is_no_browser_either_the_terminal_is_named(tmp_path: Path) -> None:
    with start(tmp_path / "home", PATH=str(tmp_path)) as process:
        out, complaints = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and not out
    assert complaints.startswith("Error: cannot open a window (")
    assert complaints.count("\n") == 1 and "chatapp" in complaints
