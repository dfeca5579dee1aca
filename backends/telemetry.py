"""Switch the runtimes' telemetry off, before one is imported."""

import os
import sys

CONVERTER = "openvino.tools.ovc"


def silence() -> None:
    """Keep the runtimes, here and in child processes, from storing an id of this machine and reporting what it does.

    ONNX Runtime reads the variable when its library is loaded. openvino reports from its converter of other frameworks'
    models, which nobody needs here, and whose import takes half of openvino's time.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    sys.modules.setdefault(CONVERTER, None)  # type: ignore[arg-type]  # this is how Python is told to find no module
