"""Start processes that a Ctrl+C in the terminal does not reach: it is meant for who waits, not for what they do."""

import subprocess
import sys
from typing import Any


def apart() -> dict[str, Any]:  # Any: what Popen takes
    """The arguments of Popen with which a process is in no group of the terminal's."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
