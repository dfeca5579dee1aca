"""A preview of the next token as lines: bars, probabilities before and after, and what is left to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from chatapp.text.printable import printable

if TYPE_CHECKING:
    from chatapp.generation.decoding.preview import Candidate, Preview

EIGHTHS = " ▏▎▍▌▋▊▉█"
SPACES = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
TEXT = 10
"""Columns of a candidate's text."""
NUMBERS = 13
"""Columns of its probabilities."""


def lines(preview: Preview, width: int, height: int) -> list[Content]:
    """As much of a preview as fits: what is kept, the candidates, how much of a choice it is."""
    kept = f"{preview.kept:,} of {preview.vocab_size:,} kept"
    head = Content.assemble(("next token", "$muted"), kept.rjust(width - len("next token")))
    shown = preview.candidates[: max(0, height - 2)]
    top = max((max(one.before, one.after) for one in shown), default=1.0)
    choice = f"{amount(preview.choices_before)} → {amount(preview.choices)}"
    tail = Content.assemble(("effective choices", "$muted"), choice.rjust(width - len("effective choices")))
    return [head, *(line(candidate, top, width) for candidate in shown), tail][:height]


def line(candidate: Candidate, top: float, width: int) -> Content:
    """One candidate: its text, a bar with the part that was lost or won, both probabilities."""
    name = Content(printable(candidate.text).translate(SPACES)).truncate(TEXT, ellipsis=True, pad=True)
    room = max(1, width - TEXT - NUMBERS - 1)
    after = round(candidate.after / top * room * 8)
    before = round(candidate.before / top * room)
    full, part = divmod(after, 8)
    bar = "█" * full + (EIGHTHS[part] if part else "")
    lost = "░" * (before - len(bar))
    unit = " %" if candidate.after else "  "
    numbers = f"{percent(candidate.before):>4} →{percent(candidate.after):>5}{unit}"
    return Content.assemble(
        name.stylize("$text" if candidate.after else "$muted"),
        " ",
        (bar[:before], "$accent"),
        (bar[before:], "$success"),
        (lost, "$muted"),
        " " * (room - len(bar) - len(lost)),
        (numbers, "$text" if candidate.after else "$muted"),
    )


def percent(share: float) -> str:
    """A probability in at most four letters: per cent."""
    if not share:
        return "–"
    return f"{share * 100:.0f}" if share > 0.0995 else f"{share * 100:.1f}" if share >= 0.0005 else "<.1"


def amount(choices: float) -> str:
    """So many tokens, to two or three digits."""
    return f"{choices:.1f}" if choices < 9.95 else f"{choices:,.0f}"
