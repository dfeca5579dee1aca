"""Signals that ask chatapp to end, such as SIGHUP of a closed terminal."""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from threading import Timer
from typing import TYPE_CHECKING

from chatapp.text.signals import ENDING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from textual.app import App

ENOUGH = 10.0
"""Seconds to leave after the terminal is gone, before the process is killed."""


def leave_on_signals(app: App[None], leave: Callable[[], None], has_begun: Callable[[], object]) -> None:
    """Call `leave` on such a signal; it may arrive repeatedly, since the shell sends one too."""

    def take(number: int, frame: FrameType | None) -> None:
        let_go_of_terminal()
        if app._loop:
            with suppress(RuntimeError):  # the loop has just ended
                app._loop.call_soon_threadsafe(leave)
        elif not has_begun():  # otherwise it is already leaving
            raise SystemExit(128 + number)

    for number in ENDING:
        signal.signal(number, take)


def let_go_of_terminal() -> None:
    """If the terminal is gone, redirect the standard streams: writing to it would fail or block."""
    if sys.platform == "win32" or not sys.__stderr__:
        return
    import termios

    try:
        termios.tcgetattr(sys.__stderr__.fileno())
    except termios.error as error:
        if error.args[0] != errno.EIO:
            return
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.close(nowhere)
        late = Timer(ENOUGH, os._exit, (1,))
        late.daemon = True
        late.start()
