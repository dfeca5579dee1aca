"""What a screen reader is told of the native window: typed in, and read by the accessibility bus of Linux.

    apt-get install xvfb dbus-x11 at-spi2-core python3-pyatspi xdotool gir1.2-webkit2-4.1 libgirepository-1.0-1
    dbus-run-session xvfb-run -a /usr/bin/python3 tests/drills/reader.py COMMAND

COMMAND is a chatapp that can open a window, such as that of a package; the Python is the system's, which has pyatspi.
The rows that are told go to standard output, to be read. Nothing is fetched: the model is the built-in one.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pyatspi

PATIENCE = 30.0
"""Seconds that a text has to be told."""


def switch_on() -> None:
    """Tell programs that a screen reader is there, as one does when it starts."""
    for name in ("IsEnabled", "ScreenReaderEnabled"):
        told = [
            "org.freedesktop.DBus.Properties.Set",
            "string:org.a11y.Status",
            f"string:{name}",
            "variant:boolean:true",
        ]
        bus = ["dbus-send", "--session", "--print-reply", "--dest=org.a11y.Bus", "/org/a11y/bus"]
        subprocess.run([*bus, *told], check=True, stdout=subprocess.DEVNULL)


def rows(part: Any, depth: int = 0) -> Iterator[str]:  # Any: pyatspi's
    """The names of all items of a list below a part, from top to bottom."""
    if part is None or depth > 20:
        return
    if part.getRoleName() == "list item":
        yield part.name
    for number in range(part.childCount):
        yield from rows(part.getChildAtIndex(number), depth + 1)


def screen() -> list[str]:
    """The rows of the window's screen, as they are told now."""
    programs = [one for one in pyatspi.Registry.getDesktop(0) if one and "chatapp" in one.name]
    return [row for program in programs for row in rows(program)]


def told(text: str) -> list[str]:
    """Wait until a text is told; the rows that were told with it."""
    end = time.monotonic() + PATIENCE
    while True:
        found = screen()
        if any(text in row for row in found):
            return found
        assert time.monotonic() < end, f"not told: {text!r}, but {found}"
        time.sleep(0.2)


def main(command: list[str]) -> None:
    """Open the window, type, read what is told, and leave."""
    switch_on()
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen([*command, "desktop", "--screen-reader"], env=os.environ | {"CHATAPP_HOME": home})
        told("ready")
        subprocess.run(["xdotool", "search", "--onlyvisible", "--name", "chatapp", "windowfocus"], check=True)
        subprocess.run(["xdotool", "type", "--delay", "50", "import numpy as"], check=True)
        told("import numpy as")
        subprocess.run(["xdotool", "key", "ctrl+j"], check=True)
        print("\n".join(told("tok/s")))
        subprocess.run(["xdotool", "key", "ctrl+q"], check=True)
        print("exit code:", process.wait(PATIENCE))


if __name__ == "__main__":
    main(sys.argv[1:])
