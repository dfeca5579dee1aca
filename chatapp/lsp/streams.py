"""Reserves standard output for the protocol, and ends the server when its editor is gone."""

import os
import select
import sys
import threading
import time
from typing import BinaryIO

from chatapp.text.child import is_running

PAUSE = 2.0
"""Seconds between two checks of the editor's process, on systems that cannot wait for it."""


def claim_output() -> BinaryIO:
    """Standard output for the protocol; anything else that prints, native code included, goes to standard error."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return output


def end_with(process: int) -> None:
    """End this process as soon as another one has ended."""
    threading.Thread(target=_outlive, args=(process,), name="editor", daemon=True).start()


def _outlive(process: int) -> None:
    wait_for_end(process)
    os._exit(1)  # nobody is left to wait for results


def wait_for_end(process: int) -> None:
    """Return when the process has ended."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            return
        except OSError:  # an old kernel, or a container that forbids it
            pass
        else:
            select.select([handle], [], [])
            return
    while is_running(process):
        time.sleep(PAUSE)
