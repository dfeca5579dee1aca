"""What showing a fast model in a long conversation costs, in a real terminal: share of a core, and keys to screen."""

import argparse
import os
import random
import select
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from history import conversations
from terminal import Terminal

from chatapp.history import History

TESTS = Path(__file__).parent.parent / "tests"
LETTERS = "QXZJKVWY"
"""Capital letters that nothing else on the screen has."""


def serve(home: Path, speed: float) -> None:
    """The program in the terminal: a model that writes so many tokens per second and never ends."""
    sys.path.insert(0, str(TESTS))
    from chatapp.tui import app
    from support.screen_driver import beginning
    from support.scripted_engine import ANSWER, ScriptedEngine

    plain = ANSWER.lower() * 400
    engine = ScriptedEngine(plain, delay=1 / speed, can_chat=True, context_length=1_000_000)
    app.run(app.ChatApp(beginning(engine, "chatty", history=home / "history.db")))


def store(home: Path, length: int) -> None:
    """A conversation of so many messages."""
    with History(home / "history.db") as history:
        for conversation, messages in conversations(1, length):
            history.restore(conversation, messages)


def processor(process: int) -> float:
    """Seconds of processor time that a process has taken; Linux tells."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watched:
    """Reads all the time, and tells when something was painted."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        while select.select([self.terminal.file], [], [], 60)[0] and self.terminal.read():
            pass

    def until(self, text: str, start: int = 0, patience: float = 30.0) -> None:
        end = time.perf_counter() + patience
        while text.encode() not in self.terminal.seen[start:]:
            if time.perf_counter() > end:
                raise SystemExit(f"no {text!r}; the last output was {bytes(self.terminal.seen[-300:])!r}")
            time.sleep(0.0005)


def key_to_screen(watched: Watched, letter: str) -> float:
    """Seconds until a letter that was typed is painted."""
    terminal = watched.terminal
    before, start = len(terminal.seen), time.perf_counter()
    terminal.press(letter.encode())
    watched.until(letter, before)
    seconds = time.perf_counter() - start
    terminal.press(b"\x7f")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1000, help="in the conversation")
    parser.add_argument("--speed", type=float, default=200, help="tokens per second")
    parser.add_argument("--keys", type=int, default=100, help="that are typed")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve, given.speed)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        store(home, given.messages)
        command = [sys.executable, __file__, "--serve", folder, "--speed", str(given.speed)]
        with Terminal(command, {"CHATAPP_HOME": folder, "PYTHONPATH": str(TESTS)}) as terminal:
            watched = Watched(terminal)
            watched.until("ready")
            terminal.press(b"why?\r")
            watched.until("writing")
            time.sleep(1)
            began, before = time.perf_counter(), processor(terminal.process.pid)
            chance, times = random.Random(0), []
            for number in range(given.keys):
                times.append(key_to_screen(watched, LETTERS[number % len(LETTERS)]))
                time.sleep(chance.uniform(0.02, 0.08))
            share = (processor(terminal.process.pid) - before) / (time.perf_counter() - began)
    p95 = sorted(times)[max(0, int(0.95 * len(times)) - 1)] * 1000
    print(f"{given.speed:.0f} tokens per second in a conversation of {given.messages:,} messages:")
    print(f"processor: {share:.0%} of a core, the scripted model and {given.keys} keys included")
    print(f"key to screen: median {statistics.median(times) * 1000:.0f} ms, p95 {p95:.0f} ms")


if __name__ == "__main__":
    main()
