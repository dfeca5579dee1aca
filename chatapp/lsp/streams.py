"""Standard output for the protocol alone, and the end of a server whose editor is gone."""

import os
import select
import sys
import threading
import time
from typing import BinaryIO

from chatapp.text.child import is_running

PAUSE = 2.0
"""Seconds between two looks at the editor's process, where the system does not tell by itself."""


def claim_output() -> BinaryIO:
    """The standard output as it was; what anybody else prints, native code too, goes to standard error from now on."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return output


def end_with(process: int) -> None:
    """End this process at once when another one has ended."""
    threading.Thread(target=_outlive, args=(process,), name="editor", daemon=True).start()


def _outlive(process: int) -> None:
    wait_for_end(process)
    os._exit(1)  # whatever is being computed is for nobody


def wait_for_end(process: int) -> None:
    """Return when there is no such process."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            return
        except OSError:  # a kernel, or a container, that has none
            pass
        else:
            select.select([handle], [], [])
            return
    while is_running(process):
        time.sleep(PAUSE)
