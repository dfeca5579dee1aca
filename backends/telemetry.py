"""What the vendors' runtimes tell their vendors by themselves, switched off before one is imported."""

import os
import sys

CONVERTER = "openvino.tools.ovc"


def silence() -> None:
    """Let no runtime keep an id of this machine or report what it does: here, and in the processes started from here.

    ONNX Runtime reads the variable when its library is loaded. What openvino imports, if it can, to convert other
    frameworks' models is what reports; nobody needs it here, and it takes half of the import's time.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    sys.modules.setdefault(CONVERTER, None)  # type: ignore[arg-type]  # this is how Python is told to find no module
