"""Previews of the next token: computed beside the screen, the newest options next, and drawn as lines of bars."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message_pump import MessagePump

from chatapp.text.printable import printable
from chatapp.text.units import bar
from chatapp.tui.threads import Drain

if TYPE_CHECKING:
    from chatapp.generation import Options
    from chatapp.generation.decoding.preview import Candidate, Preview

SPACES = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
TEXT = 10
"""Columns of a candidate's text."""
NUMBERS = 13
"""Columns of its probabilities."""

Look = Callable[["Options"], "Preview | None"]
"""The preview of the next token with some options; None where there is nothing to preview. It may take its time."""


class Previews:
    """Computes previews in a thread of its own, the newest options next."""

    def __init__(self, look: Look, owner: MessagePump, show: Callable[[Preview | None, str], object]) -> None:
        """`show` is given a preview, or why there is none, in the owner's thread."""
        self.look, self.owner, self.show = look, owner, show
        self.thread: Drain[Preview | None] | None = None
        self.next: Options | None = None

    def ask(self, options: Options) -> None:
        """Compute this one as soon as the one before is done; whatever waited is forgotten."""
        self.next = options
        if not self.thread:
            self.start()

    def start(self) -> None:
        options, self.next = self.next, None
        assert options
        on_end = partial(self.owner.call_later, self.take)
        self.thread = Drain((self.look(one) for one in (options,)), on_end, name="preview")
        self.thread.start()

    def take(self, thread: Drain[Preview | None]) -> None:
        """Show what was computed, or go on with what was asked meanwhile."""
        self.thread = None
        if self.next:
            self.start()
        else:
            self.show(next(iter(thread.take()), None), thread.error)


def draw(preview: Preview, width: int, height: int) -> list[Content]:
    """Draw as much of a preview as fits: what is kept, the candidates, how much of a choice it is."""
    kept = f"{preview.kept:,} of {preview.vocab_size:,} kept"
    head = Content.assemble(("next token", "$muted"), kept.rjust(width - len("next token")))
    shown = preview.candidates[: max(0, height - 2)]
    top = max((max(one.before, one.after) for one in shown), default=1.0)
    choice = f"{format_amount(preview.choices_before)} → {format_amount(preview.choices)}"
    tail = Content.assemble(("effective choices", "$muted"), choice.rjust(width - len("effective choices")))
    return [head, *(draw_candidate(candidate, top, width) for candidate in shown), tail][:height]


def draw_candidate(candidate: Candidate, top: float, width: int) -> Content:
    """Draw one candidate: its text, a bar with the part that was lost or won, both probabilities."""
    name = Content(printable(candidate.text).translate(SPACES)).truncate(TEXT, ellipsis=True, pad=True)
    room = max(1, width - TEXT - NUMBERS - 1)
    before, blocks = round(candidate.before / top * room), bar(candidate.after / top, room)
    lost = "░" * (before - len(blocks))
    unit = " %" if candidate.after else "  "
    numbers = f"{format_percent(candidate.before):>4} →{format_percent(candidate.after):>5}{unit}"
    return Content.assemble(
        name.stylize("$text" if candidate.after else "$muted"),
        " ",
        (blocks[:before], "$accent"),
        (blocks[before:], "$success"),
        (lost, "$muted"),
        " " * (room - len(blocks) - len(lost)),
        (numbers, "$text" if candidate.after else "$muted"),
    )


def format_percent(share: float) -> str:
    """Format a probability in at most four letters: per cent."""
    if not share:
        return "–"
    return f"{share * 100:.0f}" if share > 0.0995 else f"{share * 100:.1f}" if share >= 0.0005 else "<.1"


def format_amount(choices: float) -> str:
    """Format a number of tokens, to two or three digits."""
    return f"{choices:.1f}" if choices < 9.95 else f"{choices:,.0f}"
