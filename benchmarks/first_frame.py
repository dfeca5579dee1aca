"""Time to the first frame of the screen in a real terminal: from the process's start to the first full picture."""

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time

SCREEN = "from chatapp.tui.app import run; run()"
LAST_PAINTED = b"Commands"
"""The end of the footer, which is the end of the first frame."""


def first_frame(command: list[str]) -> float:
    """Seconds until the footer has been painted; the program is then ended."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
    )
    os.close(inner)
    seen = b""
    try:
        while LAST_PAINTED not in seen:
            if not select.select([terminal], [], [], 20)[0]:
                raise SystemExit(f"no first frame within 20 s; the last output was {seen[-300:]!r}")
            seen += os.read(terminal, 65536)
        return time.perf_counter() - start
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(terminal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("command", nargs="*", help="what to start instead of the screen, e.g. chatapp")
    arguments = parser.parse_args()
    command = arguments.command or [sys.executable, "-c", SCREEN]
    first_frame(command)  # compiles the bytecode and warms the disk cache
    bare, frames = [], []
    for _ in range(arguments.runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
        bare.append(time.perf_counter() - start)
        frames.append(first_frame(command))
    for name, seconds in (("import textual.app", bare), ("first frame", frames)):
        low, high = min(seconds) * 1000, max(seconds) * 1000
        print(f"{name:<20} median {statistics.median(seconds) * 1000:4.0f} ms   ({low:.0f} to {high:.0f})")


if __name__ == "__main__":
    main()
