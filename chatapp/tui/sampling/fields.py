"""The options as the drawer shows and changes them."""

from __future__ import annotations

import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from textual.content import Content

from chatapp.commands.parameters import PARAMETERS
from chatapp.generation.options import KNOBS, OptionError, Options
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.conversation import WhenFull

LABEL, VALUE = 13, 8
"""Columns of the label, including the cursor, and of the value."""
Kind = Literal["number", "seed", "lines", "choice", "answer"]


@dataclass(frozen=True)
class Field:
    """One option in the drawer."""

    name: str
    """Its name in Options."""
    label: str
    kind: Kind = "number"
    ladder: tuple[float, ...] = ()
    """The slider's stops; empty: no slider."""
    fine: float = 0.01
    """The small step; an int for an integer option."""
    off: Any = None  # Any: what Options takes
    """The value shown as `word`."""
    word: str = "off"

    @property
    def whole(self) -> bool:
        return isinstance(self.fine, int)

    def show(self, value: Any) -> str:
        """The value in a few letters."""
        if value == self.off:
            return self.word
        if self.kind == "answer":
            return ANSWERS[value]
        if self.kind == "lines":
            if isinstance(value, Mapping):
                return f"{len(value)} token{'s' * (len(value) > 1)}"
            return f"{len(value)} texts" if len(value) > 1 else f'"{escape(value[0])}"'
        if isinstance(value, float):
            return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"
        return str(value)

    def parse(self, typed: str) -> Any:
        """The typed value; text that is not a number is left for Options to refuse."""
        try:
            return int(typed) if self.whole else float(typed)
        except ValueError:
            return typed

    def move(self, value: Any, direction: int, *, fine: bool) -> Any:
        """The next value to the left (-1) or right (1); unchanged at the end of the slider."""
        if self.kind == "seed":
            return move_seed(value, direction)
        if not self.ladder:
            return value
        if value is None:  # no limit: beyond the right end
            return self.ladder[-1] if direction < 0 else None
        if fine:
            moved = round(value + direction * self.fine, 4)
            low, high = min(self.ladder[0], value), max(self.ladder[-1], value)
            return type(self.fine)(min(max(moved, low), high))
        if direction > 0:
            place = bisect_right(self.ladder, value)
            beyond = None if self.off is None else value
            return self.ladder[place] if place < len(self.ladder) else beyond
        place = bisect_left(self.ladder, value)
        return self.ladder[place - 1] if place else value

    def share(self, value: float | None) -> float:
        """The value's position on the slider, from 0 to 1."""
        if value is None or value >= self.ladder[-1]:
            return 1.0
        right = bisect_right(self.ladder, value)
        if not right:
            return 0.0
        low, high = self.ladder[right - 1], self.ladder[right]
        return (right - 1 + (value - low) / (high - low)) / (len(self.ladder) - 1)

    def at(self, share: float) -> Any:
        """The value at a position of the slider, from 0 to 1."""
        if share >= 1 and self.off is None:
            return None
        return self.ladder[round(min(max(share, 0.0), 1.0) * (len(self.ladder) - 1))]


def move_seed(value: int | None, direction: int) -> int | None:
    """A seed changed by one; from random, a new fixed one; below zero, random (None)."""
    if value is None:
        return secrets.randbits(16) if direction > 0 else None
    return value + direction if value + direction >= 0 else None


def escape(text: str) -> str:
    r"""A stop text on one line: `\n` for a line end, `\t` for a tab."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def stop_to_lines(stop: tuple[str, ...]) -> str:
    """Stop texts as lines for an editor."""
    return "\n".join(map(escape, stop))


def stop_from_lines(lines: str) -> tuple[str, ...]:
    """Stop texts from an editor's lines, skipping empty ones."""
    plain = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    return tuple(re.sub(r"\\[nt\\]", lambda found: plain[found[0]], line) for line in lines.split("\n") if line)


def bias_to_lines(biases: Mapping[int, float]) -> str:
    """Biases as lines for an editor: `ID=BIAS`."""
    return "\n".join(f"{token}={str(float(bias)).removesuffix('.0')}" for token, bias in biases.items())


def bias_from_lines(lines: str) -> dict[int, float]:
    """Biases from an editor's lines."""
    biases: dict[int, float] = {}
    for place, line in enumerate(lines.split("\n"), 1):
        if not line.strip():
            continue
        token, _, bias = line.partition("=")
        try:
            number, value = int(token), float(bias)
        except ValueError:
            raise OptionError(
                f"line {place} must be ID=BIAS, such as 11=-2.5 or 11=-inf, not {line.strip()!r}"
            ) from None
        if number in biases:
            raise OptionError(f"line {place} repeats token {number}; keep one of its lines")
        biases[number] = value
    return biases


ANSWERS = {
    "json_schema": "JSON, schema",
    "json_object": "JSON",
    "regex": "regex",
    "grammar": "grammar",
    "choice": "a choice",
}
"""Short names of constraints, by option."""


def answer_to_lines(options: Options) -> str:
    """The constraint for an editor: the option's name, and its value below."""
    name = options.constraint
    if name is None or name == "json_object":
        return name or ""
    return f"{name}\n{stop_to_lines(options.choice) if name == 'choice' else getattr(options, name)}"


def answer_from_lines(lines: str) -> dict[str, Any]:  # Any: what Options takes
    """The constraint from an editor's lines: an option and its value; empty if any text is allowed."""
    first, _, rest = lines.strip().partition("\n")
    name = first.strip().rstrip(":").replace(" ", "_")
    if not name:
        return {}
    if name not in ANSWERS:
        raise OptionError(f"the first line must be {', '.join(ANSWERS)} or empty, not {first.strip()[:40]!r}")
    value = {"json_object": True, "choice": stop_from_lines(rest)}.get(name, rest)
    if not value:
        raise OptionError(f"write its value below {name}")
    return {name: value}


FIELDS = (
    *(
        Field(name, knob.label, "number", knob.steps, 1 if type(knob.default) is int else 0.01, knob.off, knob.word)
        for name, knob in KNOBS.items()
        if not knob.rare
    ),
    Field(
        "max_tokens",
        "max_tokens",
        ladder=tuple(2**power for power in range(4, 14)),
        fine=1,
        word=PARAMETERS["max_tokens"].none,
    ),
    Field("seed", "seed", "seed", fine=1, word=PARAMETERS["seed"].none),
    Field("num_beams", "num_beams", ladder=(1, 2, 3, 4, 5, 6, 8, 10, 12, 16), fine=1, off=1),
    Field("stop", "stop", "lines", off=(), word=PARAMETERS["stop"].none),
    Field("logit_bias", "logit_bias", "lines", off={}, word=PARAMETERS["logit_bias"].none),
    Field("answer", "answer is", "answer", off="", word="any text"),
    Field("when_full", "when full", "choice"),
)
WHEN_FULL: tuple[WhenFull, ...] = ("stop", "slide", "summarise")
"""What to do when the context is full: stop, leave out the oldest messages, or summarise them."""


def measure_slider(width: int) -> int:
    """The columns of a slider in a line of this width."""
    return max(2, width - LABEL - VALUE - 2)


def draw_field(field: Field, value: Any, width: int, *, changed: bool, here: bool, typed: str | None) -> Content:
    """A line for an option: cursor, label, slider, value, mark of change; `typed` replaces the value."""
    colour = "$text" if changed or here else "$muted"
    shown = Content(printable(field.show(value) if typed is None else f"{typed}▏"))
    track = Content()
    if field.ladder:
        track = draw_slider(field.share(value), measure_slider(width), changed=changed, here=here)
    room = max(0, width - LABEL - track.cell_length - 1)
    shown = shown.truncate(room, ellipsis=True)
    line = Content.assemble(
        ("▸" if here else " ", "$accent"),
        (field.label.ljust(LABEL - 1), colour),
        track,
        " " * (room - shown.cell_length),
        shown.stylize("bold" if changed else "").stylize(colour),
        ("•" if changed else " ", "$warning"),
    )
    return line.stylize("on $selection") if here else line


def draw_slider(share: float, columns: int, *, changed: bool, here: bool) -> Content:
    """A slider with its knob at `share`."""
    left = round(share * (columns - 1))
    return Content.assemble(
        ("━" * left, "$accent" if changed else "$muted"),
        ("●", "$accent" if changed or here else "$text"),
        ("─" * (columns - 1 - left), "$muted 40%"),
    )
