"""Fast handling of megabyte-long lines in a TextArea: works on rows where TextArea works on whole lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.containers import Lines
from rich.text import Span, Text
from textual._wrap import compute_wrap_offsets
from textual.document._document import Location
from textual.document._wrapped_document import WrappedDocument


class Line(Text):
    """A line that is divided into rows lazily."""

    def divide(self, offsets: Iterable[int]) -> Lines:
        return Rows(self, [0, *offsets, len(self)])


class Rows(Lines):
    """The rows of a line, created on access."""

    def __init__(self, line: Text, ends: Sequence[int]) -> None:
        super().__init__()
        self.line, self.ends = line, ends

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, place: int) -> Text:  # type: ignore[override]  # slices are never taken
        start, end = self.ends[place], self.ends[place + 1]
        spans = [
            Span(max(0, span.start - start), min(end, span.end) - start, span.style)
            for span in self.line.spans
            if span.start < end and span.end > start
        ]
        line = self.line
        return Text(line.plain[start:end], line.style, end=line.end, tab_size=line.tab_size, no_wrap=True, spans=spans)


class Wrapped(WrappedDocument):
    """A wrapped document in which a change within a line rewraps it only from the row before the change."""

    def get_sections(self, line_index: int) -> list[str]:
        line = self.document[line_index]
        return [line[start:end] for start, end in pairwise([0, *self._wrap_offsets[line_index], len(line)])]

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        row, line = start[0], self.document[start[0]]
        before = self._wrap_offsets[row]
        # With tabs, the width of a row depends on the text before it.
        if not before or not row == old_end[0] == new_end[0] or self._tab_width_cache[row] != [0] or "\t" in line:
            return super().wrap_range(start, old_end, new_end)
        kept = max(0, bisect_right(before, min(start[1], old_end[1])) - 1)
        shift = before[kept - 1] if kept else 0
        offsets = before[:kept] + [shift + end for end in compute_wrap_offsets(line[shift:], self._width, 1)]
        top, more = self._line_index_to_offsets[row][0], len(offsets) - len(before)
        self._wrap_offsets[row] = offsets
        if more:
            self._offset_to_line_info[top : top + len(before) + 1] = [(row, place) for place in range(len(offsets) + 1)]
            self._line_index_to_offsets[row] = list(range(top, top + len(offsets) + 1))
            for below in range(row + 1, len(self._line_index_to_offsets)):
                self._line_index_to_offsets[below] = [y + more for y in self._line_index_to_offsets[below]]
