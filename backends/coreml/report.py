"""Report how every package of a lowered model does on this Mac, to paste into an issue.

python -m backends.coreml.report FOLDER, where FOLDER is as `chatapp show MODEL` says: .../models/NAME/coreml-PRECISION.
"""

import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backends.coreml import devices, missing, signature
from backends.coreml.choice import CORE_ML, recorded, trials
from backends.coreml.packages import contents
from backends.processor import processor


def report(folder: Path, wanted: Sequence[str], *, module: str = CORE_ML) -> dict[str, Any]:  # Any: JSON
    """Facts about the machine and the model, and trials on each device, which are run now unless they were."""
    lowered = contents(folder).lowered
    decoder = lowered.decoder
    found = {device: recorded(folder).get(device) or trials(folder, device, module=module) for device in wanted}
    return {
        "machine": f"{processor()}, {platform.platform()}, Python {platform.python_version()}",
        "versions": signature(),
        "model": f"{len(decoder.layers)} layers of {decoder.hidden_size}, {decoder.vocab_size} words",
        "precision": lowered.precision,
        "context_length": decoder.context_length,
        "trials": [asdict(trial) for device in wanted for trial in found[device]],
    }


def main(arguments: list[str]) -> None:
    """Print the report for the folder that the arguments name."""
    if len(arguments) != 1:
        sys.exit("usage: python -m backends.coreml.report FOLDER")
    if missing():
        sys.exit(f"there is nothing to report: {missing()}")
    print(json.dumps(report(Path(arguments[0]), devices()), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
