"""Where the program without a Python begins: as chatapp, or as the Python that chatapp starts for parts of its own."""

import os
import runpy
import sys
from pathlib import Path

OURS = {"backends", "chatapp"}
SEARCHED = "LD_LIBRARY_PATH"


def main() -> None:
    """Run `-P -m MODULE ...` as a Python would, of our own modules; anything else is for chatapp."""
    if sys.platform == "linux" and (bundle := getattr(sys, "_MEIPASS", "")):
        stand_apart(bundle)
    words = sys.argv[2:] if sys.argv[1:2] == ["-P"] else sys.argv[1:]
    if words[:1] == ["-m"] and len(words) > 1 and words[1].partition(".")[0] in OURS:
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_module("chatapp", run_name="__main__")  # and its windows are known by the program's name


def stand_apart(bundle: str) -> None:
    """Keep the bundle's libraries from the system's programs, and where those of a window are used, from these."""
    given = os.environ.pop(f"{SEARCHED}_ORIG", "")
    if "desktop" in sys.argv[1:3] and os.environ.get(SEARCHED, "").partition(":")[0] == bundle:
        # GTK and WebKitGTK stand on libraries that may be newer than the bundle's; it has what the system lacks.
        system = next(
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line
        )
        os.environ[SEARCHED] = ":".join([*given.split(":"), str(Path(system).parent), bundle]).lstrip(":")
        os.environ[f"{SEARCHED}_ORIG"] = given
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    # A process knows by now where it searches: this is for those that it starts.
    os.environ.pop(SEARCHED, None)
    if given:
        os.environ[SEARCHED] = given
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"  # of which our own find the bundle anew


if __name__ == "__main__":
    main()
