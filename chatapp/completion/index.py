"""An index of a folder's files: read in the background, kept up to date, and asked without waiting."""

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
"""Bytes of text per segment; about as many are read before they can be searched."""
MOST_TEXT = 20 * 1024 * 1024
"""Most bytes of text; the index takes twice as much memory."""
SOON = 0.3
"""Seconds after which what was read can be searched even if it is less."""
SMALL = 8
"""Most small segments, such as edited files', before they are merged."""
RESCAN = 30.0
"""Seconds since the last scan after which a request looks for changed files."""
WORK, REST = 0.005, 0.001
"""The background thread works for WORK seconds, then rests for REST seconds."""
FEW = 6
"""If fewer places than this follow the same two words, those that follow the last word count too."""
TAIL = 400
"""Bytes before the cursor that are compared."""
LINE = 800
"""Most bytes of a line in a result."""


class FolderIndex:
    """The text files of a folder, searchable by the text before each place.

    `start` reads them in a thread, `scan` at once; searches work from any thread, also meanwhile.
    """

    notice = ""
    """A line for the user if something was left out; set by the first scan."""

    def __init__(self, root: Path):
        self.root = check_root(root)
        self.scanned = threading.Event()
        """Whether a first scan is complete."""
        self._segments: tuple[Segment, ...] = ()
        self._homes: dict[Path, tuple[Segment, int]] = {}
        """Each file's segment, and its number there."""
        self._stamps: dict[str, tuple[int, int]] = {}
        """Each file's time of modification in nanoseconds, and its size."""
        self._full: set[Path] = set()
        """Files that did not fit."""
        self._edited: dict[Path, str] = {}
        """Texts from editors that are not indexed yet."""
        self._ignored = Ignored(self.root)
        self._lock = threading.Lock()
        """Held while the segments are changed."""
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._next_scan = 0.0
        self._worked = 0.0
        self._around: tuple[object, Surroundings | None] = (None, None)
        """The last request for excerpts, and its result."""

    @property
    def size(self) -> int:
        """Bytes of memory of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def paths(self) -> list[Path]:
        """The indexed files, sorted."""
        return sorted(list(self._homes))

    def start(self) -> None:
        """Begin to read in the background, and stay up to date until closed."""
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
        """Index a file's text from an editor, in the background; the file on disk counts again once it changes."""
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
        """Read new and changed files, and forget deleted ones."""
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
                self._forget(path)  # it came from an editor
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
        """Rest a little, in the background thread only."""
        if threading.current_thread() is self._thread and monotonic() - self._worked > WORK:
            self._closed.wait(REST)
            self._worked = monotonic()

    def _flush(self, waiting: Sequence[tuple[Path, bytes]]) -> None:
        """Index waiting files, as far as there is room."""
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
        """Whether a scan would index a file."""
        if self.root not in path.parents or not admits(path.name):
            return False
        folders = [folder for folder in path.parents if self.root in folder.parents]
        return all(map(admits_folder, map(str, folders))) and not self._ignored.covers_any(path)

    def _tidy(self) -> None:
        """Rebuild segments that are half forgotten, and merge small ones if there are many."""
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
        """The current segments; requests a rescan if the last was a while ago."""
        if self._thread and monotonic() >= self._next_scan:
            self._wake.set()
        return self._segments

    def occurrences(self, tail: str, path: Path | None) -> list[Occurrence]:
        """The places in other files than `path` that follow the longest suffixes of `tail`, longest first.

        They follow at least the same last whole word. At most OCCURRENCES are returned.
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
        """Whether a name occurs in any file, as a whole word."""
        word = name.encode(errors="replace")
        return bool(word) and any(
            segment.live[segment.numbers(segment.find_word(word))].any() for segment in self._ask()
        )

    def surroundings(self, prefix: str, suffix: str, path: Path) -> Surroundings:
        """The file's path in the folder, and excerpts of other files that are like the text around the cursor.

        The line being typed does not count, so that they do not change with every character.
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
    """Bytes of the files that still count."""
    lengths = np.diff(segment.starts, append=len(segment.text))
    return int(lengths[segment.live].sum())


def find_places(
    segments: Iterable[Segment], keys: tuple[int, int], rest: bytes, but: tuple[Segment, int] | None
) -> list[tuple[Segment, np.ndarray]]:
    """Where words with keys in a range end, followed by `rest`, by segment; one file may be left out."""
    found = list[tuple[Segment, np.ndarray]]()
    for segment in segments:
        ends = segment.find(*keys, rest)
        if but and but[0] is segment:
            ends = ends[segment.numbers(ends) != but[1]]
        if len(ends):
            found.append((segment, ends))
    return found


def prune(found: list[tuple[Segment, np.ndarray]], before: bytes) -> list[tuple[Segment, np.ndarray]]:
    """The places with the longest match before them, OCCURRENCES or a little more in case of ties."""
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
    """The lines after places, with the length of the match before, which is known to be at least `least` bytes."""
    text = segment.text
    for place, number in zip(places.tolist(), segment.numbers(places - 1).tolist(), strict=True):
        longer = range(least + 1, min(len(before), place) + 1)
        same = least + bisect_left(longer, True, key=lambda n: text[place - n : place] != before[-n:])
        line = text[place : place + LINE].partition(b"\0")[0].partition(b"\n")[0]
        length = same - sum(0x80 <= byte < 0xC0 for byte in before[len(before) - same :])
        yield Occurrence(length, line.decode(errors="ignore"), segment.paths[number])
