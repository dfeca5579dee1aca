"""A subset of vim keys, for text areas and for lists and pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from textual import events
from textual.widgets import TextArea
from textual.widgets.text_area import Location

Mode = Literal["insert", "normal"]

STEER = {"j": "down", "k": "up", "g": "home", "G": "end", "l": "right", "h": "left"}
"""Vim keys for moving in lists and pages, and the keys they stand for."""


def steer(event: events.Key, search: str = "") -> str | None:
    """The key that a vim key stands for outside of text; `search` is the key for /."""
    character = event.character or ""
    return (search or None) if character == "/" else STEER.get(character)


class Vim:
    """The vim state of a text area; starts in insert mode, so that everyone can type at once."""

    def __init__(self, area: TextArea) -> None:
        self.area = area
        self.mode: Mode = "insert"
        self.typed = ""
        """A count and the beginning of a command, such as `2d`."""
        self.register = ""
        """The text deleted or yanked last; whole lines end with a newline."""

    @property
    def indicator(self) -> str:
        """The mode, and what was typed of a command."""
        return f"{self.mode.upper()} {self.typed}".rstrip()

    def press(self, event: events.Key) -> bool:
        """Handle a key; returns whether it was one of vim's."""
        if self.mode == "insert":
            if event.key != "escape":
                return False
            self.mode = "normal"
            row, column = self.area.cursor_location
            self.go((row, max(0, column - 1)))
            return True
        if event.key == "escape":
            taken, self.typed = bool(self.typed), ""
            return taken
        if event.key == "ctrl+r":
            return self.repeat(self.area.redo)
        if not event.is_printable or event.character is None:
            return False
        self.typed += event.character
        found = re.fullmatch(r"([1-9]\d{0,3})?(gg|dd|yy|[hjklwbxpu$GiaoAIO]|(?<!\d)0)", self.typed)
        if found:
            self.typed = ""
            self.do(found[2], int(found[1] or 1), counted=bool(found[1]))
        elif not re.fullmatch(r"([1-9]\d{0,3})?[gdy]?", self.typed):  # drop invalid commands and huge counts
            self.typed = ""
        return True

    def do(self, command: str, count: int, *, counted: bool) -> None:
        """Run a command `count` times; for gg and G, a count that was typed is a line number."""
        area = self.area
        row, column = area.cursor_location
        last = area.document.line_count - 1
        match command:
            case "h":
                self.go((row, max(0, column - count)))
            case "l":
                self.go((row, min(self.end(row), column + count)))
            case "j" | "k":
                to = min(last, row + count) if command == "j" else max(0, row - count)
                self.go((to, min(column, self.end(to))))
            case "w" | "b":
                self.words(count, forward=command == "w")
            case "0":
                self.go((row, 0))
            case "$":
                to = min(last, row + count - 1)
                self.go((to, self.end(to)))
            case "gg" | "G":
                to = min(last, count - 1) if counted else 0 if command == "gg" else last
                self.go((to, min(column, self.end(to))))
            case "x":
                self.cut((row, column), (row, min(len(area.document[row]), column + count)))
            case "dd" | "yy":
                self.lines(row, min(last, row + count - 1), deleting=command == "dd")
            case "p":
                self.put(count)
            case "u":
                self.repeat(area.undo, count)
            case _:
                self.begin(command, row, column)

    # Moving

    def go(self, place: Location) -> None:
        self.area.move_cursor(place)

    def end(self, row: int) -> int:
        """The last column the cursor can be on."""
        return max(0, len(self.area.document[row]) - 1)

    def repeat(self, step: Callable[[], object], count: int = 1) -> bool:
        for _ in range(count):
            step()
        row, column = self.area.cursor_location
        self.go((row, min(column, self.end(row))))
        return True

    def starts(self) -> list[Location]:
        """The locations where words begin; an empty line counts as a word."""
        return [
            (row, found.start())
            for row, text in enumerate(self.area.document.lines)
            for found in re.finditer(r"\w+|[^\w\s]+|^$", text)
        ]

    def words(self, count: int, *, forward: bool) -> None:
        """Move by words, as far as there are any."""
        here, last = self.area.cursor_location, self.area.document.line_count - 1
        if forward:
            there = [place for place in self.starts() if place > here] + [(last, self.end(last))]
        else:
            there = [place for place in reversed(self.starts()) if place < here] + [(0, 0)]
        self.go(there[min(count, len(there)) - 1])

    # Changing

    def cut(self, start: Location, end: Location) -> None:
        """Delete a part of a line into the register."""
        if start != end and not self.area.read_only:
            self.register = self.area.get_text_range(start, end)
            self.area.delete(start, end)
            self.go((start[0], min(start[1], self.end(start[0]))))

    def lines(self, first: int, last: int, *, deleting: bool) -> None:
        """Yank or delete whole lines into the register."""
        area = self.area
        self.register = "\n".join(area.document.lines[first : last + 1]) + "\n"
        if not deleting or area.read_only:
            return
        if last + 1 < area.document.line_count:
            area.delete((first, 0), (last + 1, 0))
        else:
            area.delete((first - 1, len(area.document[first - 1])) if first else (0, 0), area.document.end)
        self.go((min(first, area.document.line_count - 1), 0))

    def put(self, count: int) -> None:
        """Insert the register: whole lines below the current one, other text after the cursor."""
        area = self.area
        row, column = area.cursor_location
        if not self.register or area.read_only:
            return
        text = self.register * count
        if text.endswith("\n"):
            area.insert("\n" + text.removesuffix("\n"), (row, len(area.document[row])))
            self.go((row + 1, 0))
        else:
            place = min(len(area.document[row]), column + 1)
            area.insert(text, (row, place))
            self.go((row, place + len(text) - 1))

    def begin(self, command: str, row: int, column: int) -> None:
        """Enter insert mode at the place the command says."""
        text = self.area.document[row]
        self.mode = "insert"
        match command:
            case "a":
                self.go((row, min(len(text), column + 1)))
            case "A":
                self.go((row, len(text)))
            case "I":
                self.go((row, len(text) - len(text.lstrip())))
            case "o" if not self.area.read_only:
                self.area.insert("\n", (row, len(text)))
                self.go((row + 1, 0))
            case "O" if not self.area.read_only:
                self.area.insert("\n", (row, 0))
                self.go((row, 0))
