"""How long an editor waits for `chatapp lsp`: a file of 2,000 lines in a folder of 2,000 files, the built-in model.

    python benchmarks/lsp_latency.py [--places N] [--files N] [--model NAME]

The files are those of this Python and of what is installed beside it. At places in the file the rest of a line is
deleted and typed anew, key by key. Times are from the request's last byte to the answer's; `processor` is what the
server computed meanwhile, on all cores, which other programs disturb less.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

ROOT = Path(__file__).parents[1]
for folder in (ROOT, ROOT / "tests"):
    sys.path.insert(0, str(folder))

from support.lsp_editor import LspEditor  # noqa: E402

LINES = 2000
KEYS = 10
"""Characters typed at each place."""
GOALS = {"warm p50": 60, "warm p95": 150, "cold p50": 150, "memory": 250}


@dataclass
class Figures:
    """What was measured: milliseconds, of the clock and of the processor."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def describe(self) -> str:
        p50, p95 = (percentile(self.clock, part) for part in (50, 95))
        return (
            f"p50 {p50:5.0f} ms, p95 {p95:5.0f} ms; processor p50 {percentile(self.processor, 50):5.0f} ms, "
            f"p95 {percentile(self.processor, 95):5.0f} ms ({len(self.clock)} requests)"
        )


def percentile(values: Sequence[float], part: int) -> float:
    """The value below which so many in a hundred are."""
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1] if len(values) > 1 else sum(values)


class Server:
    """`chatapp lsp` in a process of its own, and an editor that talks to it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "chatapp", "lsp"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment
        )
        self.editor = LspEditor(cast(BinaryIO, self.process.stdin), cast(BinaryIO, self.process.stdout))

    @property
    def processor(self) -> float:
        """Milliseconds of processor time so far."""
        facts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(facts[11]) + int(facts[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def memory(self, name: str) -> float:
        """MB: VmRSS is what it takes now, VmHWM what it took at most."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

    def ask(self, figures: Figures, line: int, character: int, uri: str) -> int:
        """Ask for ghost text and note how long it took; the number of items."""
        before, start = self.processor, time.perf_counter()
        items = self.editor.ghost(line, character, uri=uri)
        figures.clock.append(1000 * (time.perf_counter() - start))
        figures.processor.append(self.processor - before)
        return len(items)


def fill(folder: Path, count: int) -> Path:
    """Put so many files of Python into a folder; the one that is edited, of LINES lines."""
    roots = [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    sources = sorted(path for root in roots for path in root.rglob("*.py") if 500 < path.stat().st_size < 100_000)
    random.Random(1).shuffle(sources)
    for number, source in enumerate(sources[:count]):
        shutil.copy(source, folder / f"{source.stem}_{number}.py")
    edited = folder / "edited.py"
    text = (roots[0] / "argparse.py").read_text("utf-8").split("\n")[:LINES]
    edited.write_text("\n".join(text), "utf-8")
    return edited


def type_lines(server: Server, edited: Path, places: int) -> tuple[Figures, Figures, Figures, int]:
    """Type lines anew: requests far from the last one, while typing, and where an offer was typed on; those shown."""
    cold, warm, known, shown = Figures(), Figures(), Figures(), 0
    lines, uri = edited.read_text("utf-8").split("\n"), edited.as_uri()
    long_enough = [number for number, line in enumerate(lines) if len(line.strip()) > KEYS + 4 and line.isascii()]
    for number in random.Random(2).sample(long_enough, places):
        line, start = lines[number], len(lines[number]) - len(lines[number].lstrip()) + 2
        server.editor.change(
            [{"range": {"start": place(number, start), "end": place(number, len(line))}, "text": ""}], uri
        )
        shown += server.ask(cold, number, start, uri)
        for typed in range(start, start + KEYS):
            server.editor.type(line[typed], number, typed, uri)
            figures = Figures()
            shown += server.ask(figures, number, typed + 1, uri)
            into = warm if figures.clock[0] > 5 or figures.processor[0] else known
            into.clock += figures.clock
            into.processor += figures.processor
        server.editor.type(line[start + KEYS :], number, start + KEYS, uri)
    return cold, warm, known, shown


def place(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def type_fast(server: Server, edited: Path, keys: int) -> tuple[int, int]:
    """Type ten characters a second: the most requests that had no answer, and how many had one before the next key."""
    uri, end = edited.as_uri(), len(edited.read_text("utf-8").split("\n")) - 1
    text = "def compute_the_total(values):\n    total = 0\n    for value in values:\n        total += value\n" * 10
    server.editor.type("\n", end, len(edited.read_text("utf-8").split("\n")[-1]), uri)
    line, character, most, in_time, last = end + 1, 0, 0, 0, None
    for key in text[:keys]:
        in_time += bool(last and last.done())
        server.editor.type(key, line, character, uri)
        line, character = (line + 1, 0) if key == "\n" else (line, character + 1)
        last = server.editor.ask_ghost(line, character, uri=uri)
        most = max(most, len(server.editor.waiting))
        time.sleep(0.1)
    return most, in_time


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--places", type=int, default=40)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--model", default="builtin")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        edited = fill(Path(temporary), given.files)
        started = time.perf_counter()
        server = Server()
        editor = server.editor
        editor.begin(rootUri=Path(temporary).as_uri(), initializationOptions={"model": given.model})
        print(f"answers to hello after {time.perf_counter() - started:.2f} s")
        editor.open(edited.read_text("utf-8"), uri=edited.as_uri())
        first = Figures()
        server.ask(first, LINES // 2, 0, edited.as_uri())
        print(f"first answer, while all is being loaded  {first.describe()}")
        editor.until_loaded()
        print(f"the model is open after {time.perf_counter() - started:.2f} s")
        with editor.news:
            editor.news.wait_for(lambda: any("files of" in str(message) for message in editor.told), 120)
        print(
            f"the folder is read after {time.perf_counter() - started:.2f} s, processor {server.processor / 1000:.2f} s"
        )
        print(f"memory then {server.memory('VmRSS'):.0f} MB, at most {server.memory('VmHWM'):.0f} MB")
        cold, warm, known, shown = type_lines(server, edited, given.places)
        print(f"cold, at another place    {cold.describe()}")
        print(f"warm, typing              {warm.describe()}")
        print(f"what was shown, typed on  {known.describe()}" if known.clock else "nothing was typed on")
        print(f"shown {shown} of {len(cold.clock + warm.clock + known.clock)}")
        most, in_time = type_fast(server, edited, 10 * given.places)
        print(f"ten keys a second: at most {most} requests without an answer, {in_time} answered before the next key")
        print(f"memory at the end {server.memory('VmRSS'):.0f} MB, at most {server.memory('VmHWM'):.0f} MB")
        print(f"goals: {GOALS}")
        editor.leave()
        server.process.wait(20)


if __name__ == "__main__":
    main()
