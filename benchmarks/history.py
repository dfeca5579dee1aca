"""What conversations cost: search, opening, and saving a reply while it grows, with many of them stored."""

import argparse
import functools
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from chatapp.history import Conversation, History, Message

SEARCHES = {
    "a rare word": "w19000",
    "a word in half the messages": "the",
    "two frequent words": "the model",
    "a frequent and a rare word": "the w19000",
    "the beginning of many words": "w12",
    "nothing": "absent",
    "letters anywhere, by reading every message": "w1+ ++",
    "a script without spaces": "世界",
}
WORDS = 40
"""In a message."""


def conversations(count: int, length: int) -> Iterator[tuple[Conversation, list[Message]]]:
    """Random conversations: words as frequent as in a natural language, rare ones by their number."""
    chance = random.Random(0)
    frequent = ["the", "model", "a", "of", "and", "to", "in", "is"]
    vocabulary = frequent + [f"w{number}" for number in range(20_000)]
    chances = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    for number in range(count):
        words = chance.choices(vocabulary, chances, k=WORDS * length)
        messages = [
            Message(
                place + 1,
                0,
                place or None,
                "assistant" if place % 2 else "user",
                " ".join(words[WORDS * place : WORDS * (place + 1)]),
                created=float(place),
            )
            for place in range(length)
        ]
        yield Conversation(0, f"conversation {number}", "chat", "model", 0.0, float(number), length, length), messages


def milliseconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The median and the longest time of some work."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), max(times)


def grow(history: History, reply: Message, text: str) -> Callable[[], object]:
    """What saves a reply that is one word longer each time."""
    words = itertools.count()
    return lambda: history.change(replace(reply, text=f"{text} w{next(words)}"))


def open_and_list(path: Path) -> None:
    """What the screen needs before its first frame: the list and the last conversation."""
    with History(path) as history:
        history.list(100)
        last = history.last()
        assert last
        history.messages(last.id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=100, help="1,000 take about 500 MB and ten minutes")
    parser.add_argument("--messages", type=int, default=1000, help="in each")
    parser.add_argument("--repeats", type=int, default=21)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        start = time.perf_counter()
        with History(path) as history:
            for conversation, messages in conversations(given.conversations, given.messages):
                history.restore(conversation, messages)
        seconds, size = time.perf_counter() - start, path.stat().st_size / 1e6
        print(
            f"{given.conversations:,} conversations of {given.messages:,} messages: {size:,.0f} MB, "
            f"written in {seconds:.0f} s, SQLite {sqlite3.sqlite_version}\n"
        )
        print(f"{'milliseconds':56}{'median':>10}{'longest':>10}")

        def tell(what: str, work: Callable[[], object]) -> None:
            median, longest = milliseconds(work, given.repeats)
            print(f"{what:56}{median:10.2f}{longest:10.2f}")

        tell("open, list 100, read the last conversation", lambda: open_and_list(path))
        with History(path) as history:
            tell("list all conversations", history.list)
            tell("the last 1,000 prompts", history.prompts)
            for what, text in SEARCHES.items():
                tell(f"search: {what}", functools.partial(history.search, text))
            reply = history.put(Message(0, 1, None, "assistant", "", 0.0, finished=False))
            for size in (1_000, 10_000, 100_000):
                tell(f"save a growing reply of {size:,} characters", grow(history, reply, "word " * (size // 5)))
            tell("add a message", lambda: history.add(1, "user", "word " * WORDS, parent=None))


if __name__ == "__main__":
    main()
