"""Time to the first frame of the screen in a real terminal, and to the last conversation where some are stored."""

import argparse
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

from history import conversations
from terminal import Terminal

from chatapp.history import History

SCREEN = "from chatapp.tui import app; from chatapp.workspace import Workspace; app.run(app.ChatApp(Workspace()))"
SMALLEST = """
from textual.app import App
from textual.widgets import Static

class Smallest(App):
    def compose(self):
        yield Static("Commands")

Smallest().run()
"""
"""What any Textual app takes on this machine; on the one for which 300 ms was the goal, it took 182 to 207 ms."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--conversations", type=int, default=0, help="that are stored; 1,000 take ten minutes to make")
    parser.add_argument("--messages", type=int, default=1000, help="in each")
    parser.add_argument("--home", type=Path, help="where the conversations are, or are to stay")
    parser.add_argument("command", nargs="*", help="what to start instead of the screen, e.g. chatapp")
    arguments = parser.parse_args()
    command = arguments.command or [sys.executable, "-c", SCREEN]
    smallest = [sys.executable, "-c", SMALLEST]
    awaited = (LAST_PAINTED, LAST_SAID) if arguments.conversations else (LAST_PAINTED,)
    with tempfile.TemporaryDirectory() as folder:
        home = arguments.home or Path(folder)
        if arguments.conversations and not (home / "history.db").exists():
            store(home, arguments.conversations, arguments.messages)
        watch(command, home, *awaited)  # compiles the bytecode and warms the disk cache
        runs = [(*watch(smallest, home, LAST_PAINTED), *watch(command, home, *awaited)) for _ in range(arguments.runs)]
    names = ("smallest Textual app", "first frame", "last conversation")
    for name, seconds in zip(names, zip(*runs, strict=True), strict=False):
        low, high = min(seconds) * 1000, max(seconds) * 1000
        print(f"{name:<20} median {statistics.median(seconds) * 1000:4.0f} ms   ({low:.0f} to {high:.0f})")
    ratios = [first / least for least, first, *_ in runs]
    print(
        f"first frame / smallest Textual app: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
