"""What processor this is."""

import platform
import subprocess
from functools import cache
from pathlib import Path


@cache
def processor() -> str:
    """The processor's name as its maker gives it."""
    try:
        if platform.system() == "Darwin":
            return subprocess.check_output(["sysctl", "-n", "machdep.cpu.brand_string"], text=True).strip()
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except (OSError, subprocess.SubprocessError):
        lines = []
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {key.strip(): value.strip() for key, value in facts.items()}
    found = " ".join(names[key] for key in ("model name", "cpu family", "model", "stepping") if key in names)
    return found or platform.processor() or platform.machine()
