"""What the other files of a folder say: read in the background, kept up to date, and asked without waiting."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic

import numpy as np

from chatapp.completion.excerpts import find_excerpts, words_around
from chatapp.completion.matches import LEAST, OCCURRENCES
from chatapp.completion.place import Occurrence
from chatapp.completion.segment import LAST_RUNS, LAST_WORD, Segment, pair_range, word_range
from chatapp.completion.sources import MOST_BYTES, Ignored, Omitted, admits, admits_folder, check_root, clean, walk
from chatapp.generation import Surroundings

SEGMENT = 256 * 1024
"""Bytes of text that are searched as one; about as many are read before they can be asked for."""
MOST_TEXT = 20 * 1024 * 1024
"""Bytes of text: twice as much is needed in memory."""
SOON = 0.3
"""Seconds after which what was read can be asked for, also where it is less."""
SMALL = 8
"""Small segments, such as one of a file that was edited, that may be there before they are put together."""
RESCAN = 30.0
"""Seconds after which, when somebody asks, it is looked for what has changed."""
WORK, REST = 0.005, 0.001
"""Seconds after which the background lets others work, and for how long."""
FEW = 6
"""Where fewer places follow the same two words, those that follow the last one count too."""
TAIL = 400
"""Bytes before the cursor that are compared."""
LINE = 800
"""Bytes of a line that are told."""


class FolderIndex:
    """The text files of a folder, by what stands before each place in them.

    `start` reads them in a thread; `scan` does it at once. Both can be asked from any thread, also meanwhile.
    """

    notice = ""
    """One line for the user, where something was left out; it is there after the first scan."""

    def __init__(self, root: Path):
        self.root = check_root(root)
        self.scanned = threading.Event()
        """Whether all has been read once."""
        self._segments: tuple[Segment, ...] = ()
        self._homes: dict[Path, tuple[Segment, int]] = {}
        """In which segment each file is, and which it is there."""
        self._stamps: dict[str, tuple[int, int]] = {}
        """When each file that may count was changed, in nanoseconds, and its size."""
        self._full: set[Path] = set()
        """Files for which there was no room."""
        self._edited: dict[Path, str] = {}
        """What an editor has told and was not taken up yet."""
        self._ignored = Ignored(self.root)
        self._lock = threading.Lock()
        """Of whoever changes the segments."""
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._next_scan = 0.0
        self._worked = 0.0
        self._around: tuple[object, Surroundings | None] = (None, None)
        """What was asked for the last excerpts, and these."""

    @property
    def size(self) -> int:
        """Bytes that the segments take in memory."""
        return sum(segment.size for segment in self._segments)

    @property
    def paths(self) -> list[Path]:
        """The files that are in it, sorted."""
        return sorted(list(self._homes))

    def start(self) -> None:
        """Begin to read in the background, and keep up to date until closed."""
        self._thread = threading.Thread(target=self._run, name="folder index", daemon=True)
        self._wake.set()
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        self._wake.set()
        if self._thread:
            self._thread.join()

    def update(self, path: Path, text: str) -> None:
        """Take a file's text from an editor, in the background; the file on disk counts again once it changes."""
        self._edited[path] = text
        self._wake.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                self._take_edited()
            if monotonic() >= self._next_scan:
                self.scan()

    def scan(self) -> None:
        """Read what is new or has changed, and forget what is gone."""
        with self._lock:
            omitted, found, waiting = Omitted(), set[str](), list[tuple[Path, bytes]]()
            self._ignored, due = Ignored(self.root), monotonic() + SOON
            for name, facts in walk(self.root, omitted):
                if self._closed.is_set():
                    return
                found.add(name)
                stamp = facts.st_mtime_ns, facts.st_size
                if self._stamps.get(name) != stamp and (content := self._read(name, omitted)) is not None:
                    self._stamps[name] = stamp
                    if text := clean(content):
                        waiting.append((Path(name), text))
                    else:
                        self._forget(Path(name))
                    if sum(len(text) for _, text in waiting) >= SEGMENT or monotonic() >= due:
                        self._flush(waiting)
                        waiting, due = [], monotonic() + SOON
                self._pause()
            self._flush(waiting)
            for name in self._stamps.keys() - found:
                del self._stamps[name]
                self._full.discard(Path(name))
                self._forget(Path(name))
            for path in [path for path in self._homes if str(path) not in found and not path.exists()]:
                self._forget(path)  # an editor had it
            self._tidy()
            self._next_scan = monotonic() + RESCAN
            omitted.full = len(self._full)
            self.notice = omitted.describe(self.root)
            self.scanned.set()

    def _read(self, name: str, omitted: Omitted) -> bytes | None:
        try:
            with open(name, "rb") as file:
                return file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError:
            omitted.unreadable += 1
            return None

    def _pause(self) -> None:
        """Let others work, in the background only."""
        if threading.current_thread() is self._thread and monotonic() - self._worked > WORK:
            self._closed.wait(REST)
            self._worked = monotonic()

    def _flush(self, waiting: Sequence[tuple[Path, bytes]]) -> None:
        """Add files that wait, as far as there is room."""
        room = MOST_TEXT - sum(len(segment.text) for segment in self._segments)
        kept = list[tuple[Path, bytes]]()
        for path, text in waiting:
            if len(text) <= room:
                room -= len(text)
                kept.append((path, text))
                self._full.discard(path)
            else:
                self._full.add(path)
                self._forget(path)
        self._add(kept)

    def _add(self, files: Sequence[tuple[Path, bytes]]) -> None:
        if not files:
            return
        segment = Segment(files)
        self._segments = (*self._segments, segment)
        for number, (path, _) in enumerate(files):
            self._forget(path)
            self._homes[path] = segment, number

    def _forget(self, path: Path) -> None:
        if home := self._homes.pop(path, None):
            segment, number = home
            segment.live[number] = False

    def _take_edited(self) -> None:
        while self._edited:
            path, text = self._edited.popitem()
            cleaned = clean(text.encode(errors="replace")) if self._counts(path) else None
            if cleaned:
                self._flush([(path, cleaned)])
            else:
                self._forget(path)
        self._tidy()

    def _counts(self, path: Path) -> bool:
        """Whether a file is one that a scan would find."""
        if self.root not in path.parents or not admits(path.name):
            return False
        folders = [folder for folder in path.parents if self.root in folder.parents]
        return all(map(admits_folder, map(str, folders))) and not self._ignored.covers_any(path)

    def _tidy(self) -> None:
        """Make new segments of those that are half forgotten, and of small ones where these are many."""
        worn = [segment for segment in self._segments if 2 * live_bytes(segment) < len(segment.text)]
        small = [segment for segment in self._segments if segment not in worn and len(segment.text) < SEGMENT // 4]
        worn += small if len(small) > SMALL else []
        if not worn:
            return
        files = [(path, s.read(number)) for s in worn for number, path in enumerate(s.paths) if s.live[number]]
        self._segments = tuple(segment for segment in self._segments if segment not in worn)
        batch = list[tuple[Path, bytes]]()
        for file in files:
            batch.append(file)
            if sum(len(text) for _, text in batch) >= SEGMENT:
                self._add(batch)
                batch = []
        self._add(batch)

    def _ask(self) -> tuple[Segment, ...]:
        """The segments as they are; whoever asks after a while has the folder looked through again."""
        if self._thread and monotonic() >= self._next_scan:
            self._wake.set()
        return self._segments

    def occurrences(self, tail: str, path: Path | None) -> list[Occurrence]:
        """Where the longest ends of `tail` stand in other files than `path`, the longest first.

        Found is what follows the same last whole word: at least that is the same. At most OCCURRENCES are told.
        """
        before = tail.replace("\r\n", "\n").encode(errors="replace").rpartition(b"\0")[2][-TAIL:]
        last = LAST_WORD.search(before)
        if not last:
            return []
        word, rest = last.groups()
        pair = LAST_RUNS.search(before[: last.start()])
        segments, home = self._ask(), self._homes.get(path) if path else None
        found = find_places(segments, pair_range(word, (pair[1], pair[2])), rest, home) if pair else []
        if sum(len(ends) for _, ends in found) < FEW:
            found = find_places(segments, word_range(word), rest, home)
        told = [
            each
            for segment, ends in prune(found, before[: last.end(1)])
            for each in tell(segment, ends + len(rest), before, least=len(rest))
        ]
        return sorted((each for each in told if each.length >= LEAST), key=lambda each: -each.length)

    def knows(self, name: str) -> bool:
        """Whether a name stands in any of the files, as a whole word."""
        word = name.encode(errors="replace")
        return bool(word) and any(
            segment.live[segment.numbers(segment.find_word(word))].any() for segment in self._ask()
        )

    def surroundings(self, prefix: str, suffix: str, path: Path) -> Surroundings:
        """Where a file stands in the folder, and what of others is like the lines around the cursor.

        The line that is typed does not count, so that these do not change with every character.
        """
        words = words_around(prefix, suffix)
        asked = path, words, segments = (path, words, self._ask())
        before, known = self._around
        if known is None or before != asked:
            inside = self.root in path.parents
            name = path.relative_to(self.root).as_posix() if inside else path.name
            known = Surroundings(self.root.name, name, find_excerpts(segments, words, self.root, path))
            self._around = asked, known
        return known


def live_bytes(segment: Segment) -> int:
    """Bytes of the files that count."""
    lengths = np.diff(segment.starts, append=len(segment.text))
    return int(lengths[segment.live].sum())


def find_places(
    segments: Iterable[Segment], keys: tuple[int, int], rest: bytes, but: tuple[Segment, int] | None
) -> list[tuple[Segment, np.ndarray]]:
    """Where words of a range of keys end, followed by `rest`, in each segment that has any; one file does not count."""
    found = list[tuple[Segment, np.ndarray]]()
    for segment in segments:
        ends = segment.find(*keys, rest)
        if but and but[0] is segment:
            ends = ends[segment.numbers(ends) != but[1]]
        if len(ends):
            found.append((segment, ends))
    return found


def prune(found: list[tuple[Segment, np.ndarray]], before: bytes) -> list[tuple[Segment, np.ndarray]]:
    """The places that are preceded longest as `before` ends, OCCURRENCES or a little more where these are as long."""
    for distance, byte in enumerate(reversed(before), 1):
        if sum(len(ends) for _, ends in found) <= OCCURRENCES:
            break
        longer = [(segment, segment.precede(ends, byte, distance)) for segment, ends in found]
        if not any(len(ends) for _, ends in longer):
            break
        found = [(segment, ends) for segment, ends in longer if len(ends)]
    left, kept = OCCURRENCES, list[tuple[Segment, np.ndarray]]()
    for segment, ends in found:
        kept.append((segment, ends[:left]))
        left -= len(kept[-1][1])
    return kept


def tell(segment: Segment, places: np.ndarray, before: bytes, *, least: int) -> Iterator[Occurrence]:
    """What follows places, and how much before each is as `before` ends, of which `least` bytes are known to be."""
    text = segment.text
    for place, number in zip(places.tolist(), segment.numbers(places - 1).tolist(), strict=True):
        longer = range(least + 1, min(len(before), place) + 1)
        same = least + bisect_left(longer, True, key=lambda n: text[place - n : place] != before[-n:])
        line = text[place : place + LINE].partition(b"\0")[0].partition(b"\n")[0]
        length = same - sum(0x80 <= byte < 0xC0 for byte in before[len(before) - same :])
        yield Occurrence(length, line.decode(errors="ignore"), segment.paths[number])
