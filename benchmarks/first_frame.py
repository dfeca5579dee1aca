"""Time to the first frame of the screen in a real terminal, and to the last conversation where some are stored."""

import argparse
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from history import conversations
from terminal import Terminal

from chatapp.history import History

SCREEN = "from chatapp.tui import app, users; app.run(users.start())"
LAST_PAINTED = b"Commands"
"""The end of the footer, which is the end of the first frame."""
LAST_SAID = b"That was the last word."


def store(home: Path, count: int, length: int) -> None:
    """Make so many conversations of so many messages each."""
    with History(home / "history.db") as history:
        for conversation, messages in conversations(count, length):
            history.restore(conversation, messages)
        last = history.last()
        assert last
        history.add(last.id, "assistant", LAST_SAID.decode(), parent=last.leaf)


def watch(command: list[str], home: Path, *awaited: bytes) -> list[float]:
    """Seconds until each of these was painted; the program is then ended."""
    start = time.perf_counter()
    times = []
    with Terminal(command, {"CHATAPP_HOME": str(home)}) as terminal:
        for what in awaited:
            while what not in terminal.seen:
                if not select.select([terminal.file], [], [], 20)[0] or not terminal.read():
                    raise SystemExit(f"no {what!r} within 20 s; the last output was {bytes(terminal.seen[-300:])!r}")
            times.append(time.perf_counter() - start)
    return times


def bare() -> float:
    """Seconds that Textual alone takes to be imported."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--conversations", type=int, default=0, help="that are stored; 1,000 take ten minutes to make")
    parser.add_argument("--messages", type=int, default=1000, help="in each")
    parser.add_argument("command", nargs="*", help="what to start instead of the screen, e.g. chatapp")
    arguments = parser.parse_args()
    command = arguments.command or [sys.executable, "-c", SCREEN]
    awaited = (LAST_PAINTED, LAST_SAID) if arguments.conversations else (LAST_PAINTED,)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if arguments.conversations:
            store(home, arguments.conversations, arguments.messages)
        watch(command, home, *awaited)  # compiles the bytecode and warms the disk cache
        runs = [(bare(), *watch(command, home, *awaited)) for _ in range(arguments.runs)]
    names = ("import textual.app", "first frame", "last conversation")
    for name, seconds in zip(names, zip(*runs, strict=True), strict=False):
        low, high = min(seconds) * 1000, max(seconds) * 1000
        print(f"{name:<20} median {statistics.median(seconds) * 1000:4.0f} ms   ({low:.0f} to {high:.0f})")


if __name__ == "__main__":
    main()
