"""Previews of the next token: computed in a thread, drawn as bars."""

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
"""Computes the preview of the next token under some options; None if there is nothing to preview. May be slow."""


class Previews:
    """Computes previews in a thread, one at a time; only the newest request waits."""

    def __init__(self, look: Look, owner: MessagePump, show: Callable[[Preview | None, str], object]) -> None:
        """`show` gets a preview, or an error message, on the owner's thread."""
        self.look, self.owner, self.show = look, owner, show
        self.thread: Drain[Preview | None] | None = None
        self.next: Options | None = None

    def ask(self, options: Options) -> None:
        """Request a preview, replacing one that waits."""
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
        """Show the result, or start the request that waits."""
        self.thread = None
        if self.next:
            self.start()
        else:
            self.show(next(iter(thread.take()), None), thread.error)


def draw(preview: Preview, width: int, height: int) -> list[Content]:
    """A preview in this many columns and lines: tokens kept, candidates, effective choices."""
    kept = f"{preview.kept:,} of {preview.vocab_size:,} kept"
    head = Content.assemble(("next token", "$muted"), kept.rjust(width - len("next token")))
    shown = preview.candidates[: max(0, height - 2)]
    top = max((max(one.before, one.after) for one in shown), default=1.0)
    choice = f"{format_amount(preview.choices_before)} → {format_amount(preview.choices)}"
    tail = Content.assemble(("effective choices", "$muted"), choice.rjust(width - len("effective choices")))
    return [head, *(draw_candidate(candidate, top, width) for candidate in shown), tail][:height]


def draw_candidate(candidate: Candidate, top: float, width: int) -> Content:
    """A candidate: its text, a bar with what it lost or gained, and both probabilities."""
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
    """A probability as a percentage in at most four characters."""
    if not share:
        return "–"
    return f"{share * 100:.0f}" if share > 0.0995 else f"{share * 100:.1f}" if share >= 0.0005 else "<.1"


def format_amount(choices: float) -> str:
    """A number of tokens in two or three digits."""
    return f"{choices:.1f}" if choices < 9.95 else f"{choices:,.0f}"
