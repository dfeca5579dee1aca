"""What an offer costs, part by part, for the built-in model: python benchmarks/completion.py [LINES FILES PLACES].

A file of so many lines of Python's standard library is edited, in a folder of so many of its files. Processor time in
milliseconds, median and 95th percentile: `cold` where the model has read nothing of the place, `typed` where a letter
was added since, `shown` where that letter is the next one of what was shown.
"""

import random
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from chatapp.completion import candidates  # noqa: E402
from chatapp.completion.completer import Completer  # noqa: E402
from chatapp.completion.index import FolderIndex  # noqa: E402
from chatapp.completion.matches import matches_elsewhere, matches_in_file  # noqa: E402
from chatapp.completion.place import Place  # noqa: E402
from chatapp.generation.memory import peak_memory  # noqa: E402
from chatapp.placement.opening import open_engine  # noqa: E402
from chatapp.placement.selection import PlacementOptions  # noqa: E402
from model_store import Store  # noqa: E402

Times = dict[str, list[float]]


def main() -> None:
    """Print the table."""
    lines, files, places = map(int, sys.argv[1:4] or (2000, 2000, 100))
    times: Times = defaultdict(list)
    with tempfile.TemporaryDirectory() as home:
        folder = copy_sources(Path(home) / "folder", files)
        index = FolderIndex(folder)
        timed(times, "index of the folder", index.scan)
        completer = Completer(lambda: open_engine(Store(Path(home) / "models"), "builtin", PlacementOptions("onnx")))
        timed(times, "load", completer.open)
        for place in draw(folder, lines, places):
            measure(times, completer, replace(place, folder=index))
    print(f"{lines} lines, {len(index.paths)} files, {index.size / 1e6:.0f} MB of index; peak {peak_memory() >> 20} MB")
    print("| part | p50 ms | p95 ms |\n|---|---|---|")
    for name, taken in times.items():
        ordered = sorted(taken)
        print(f"| {name} | {ordered[len(ordered) // 2]:.1f} | {ordered[len(ordered) * 95 // 100]:.1f} |")


def copy_sources(folder: Path, count: int) -> Path:
    """A folder of files of the standard library and of what is installed here, the smallest names first."""
    found = (path for name in ("stdlib", "purelib") for path in sorted(Path(sysconfig.get_path(name)).rglob("*.py")))
    for number, path in zip(range(count), found, strict=False):
        target = folder / f"part{number // 100}" / f"{number}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return folder


def draw(folder: Path, lines: int, count: int) -> list[Place]:
    """Places within lines of a file that is put together from the folder's."""
    chance = random.Random(3)
    texts = [path.read_text("utf-8", errors="replace") for path in sorted(folder.rglob("*.py"))[:200]]
    text = "\n".join("\n".join(texts).split("\n")[:lines])
    places = list[Place]()
    while len(places) < count:
        cut = chance.randrange(len(text) // 4, len(text))
        line = text[text.rfind("\n", 0, cut) + 1 : cut]
        if len(line.strip()) > 3:
            end = text.find("\n", cut)
            places.append(Place(text[:cut], text[end if end >= 0 else len(text) :], folder / "edited.py"))
    return places


def measure(times: Times, completer: Completer, place: Place) -> None:
    """The parts of one offer, and offers as they follow each other."""
    engine = completer.engine
    assert engine
    prefix, suffix = candidates.see(place, engine.context_length)
    timed(times, "matches in the file", lambda: matches_in_file(place))
    timed(times, "matches in the folder", lambda: matches_elsewhere(place))
    timed(times, "beam of four, cold", lambda: engine.find_lines(prefix, suffix))
    timed(times, "beam of four, read before", lambda: engine.find_lines(prefix, suffix))
    timed(times, "scores of two lines", lambda: engine.score_lines(prefix, suffix, ["self.name = name", "return None"]))
    engine.find_lines("", "")
    timed(times, "offer, cold", lambda: completer.offers(place, invoked=True))
    typed = replace(place, prefix=place.prefix + "s")
    timed(times, "offer, typed", lambda: completer.offers(typed, invoked=True))
    shown = completer.offers(typed, invoked=True)
    if shown and len(shown[0].text) > 1:
        on = replace(typed, prefix=typed.prefix + shown[0].text[0])
        timed(times, "offer, shown", lambda: completer.offers(on, invoked=True))


def timed(times: Times, name: str, work: Callable[[], object]) -> None:
    """Do something and note the milliseconds of the processor that it took."""
    started = time.process_time()
    work()
    times[name].append(1000 * (time.process_time() - started))


if __name__ == "__main__":
    main()
