"""Screen: the tree of a beam search, also while it runs; any beam can be taken."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from chatapp.generation.beam_tree import Beam, BeamTree, Line
from chatapp.text.printable import printable
from chatapp.tui.insight.wrapping import label
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.theme import painted
from chatapp.tui.widgets.rows import Rows
from chatapp.tui.widgets.textual_fixes import EndsOnce

PAUSE = 0.2
"""Seconds between updates of a running search."""
STATES = {"going": ("●", "accent"), "passed": ("●", "text"), "pruned": ("✗", "muted"), "finished": ("✓", "success")}
"""Mark and colour of a branch, by the state of its last beam."""
SCORE = 12
"""Columns of a score."""


class BeamLines(Rows):
    """A line for each branch between two forks, with its score at the end."""

    BINDINGS = [
        Binding("left", "up", "Parent branch", show=False),
        Binding("right", "into", "First continuation", show=False),
        Binding("b", "best", "Best", id="beams.best"),
        Binding("p", "prune", "Pruned branches", id="beams.pruned"),
        Binding("enter", "screen.take", "Continue from here", key_display="↵", id="beams.take"),
    ]
    pruned = reactive(True)
    """Whether pruned branches are shown."""

    class Moved(Message):
        """The cursor is on another branch, or its branch has grown."""

    def __init__(self, search: BeamTree) -> None:
        super().__init__()
        self.search = search
        self.rows: list[Line] = []
        self.first: Beam | None = None
        """The first beam of the branch under the cursor, which keeps the cursor's place as the tree changes."""
        self.seen = -1

    def on_mount(self) -> None:
        self.grow()

    def grow(self) -> None:
        """Show what the search has done since the last update."""
        size = len(self.search.beams) * 2 + self.search.count["pruned"]
        if size != self.seen:
            self.seen = size
            self.lay_out()

    def lay_out(self) -> None:
        """Lay out the tree; the cursor stays on its branch, or goes to the best one."""
        self.rows = self.search.lines(pruned=self.pruned)
        self.measure()
        if self.first is None or not any(line.beams[0] is self.first for line in self.rows):
            above = self.first.path if self.first else self.best_path()
            starts = {line.beams[0].id: line for line in self.rows}
            self.first = next((beam for beam in reversed(above) if beam.id in starts), None)
        self.reveal()

    def best_path(self) -> list[Beam]:
        """The beams of the best text."""
        return next((beam.path for beam in self.search.rank()), [])

    # Painting

    def render_line(self, y: int) -> Strip:
        width, page = self.scrollable_content_region.width, self.rich_style
        row = y + self.scroll_offset.y
        if row >= len(self.rows):
            return Strip.blank(width, page)
        line, here = self.rows[row], row == self.place
        mark, colour = STATES[line.last.state]
        best = {beam.id for beam in self.best_path()}
        ink = "text" if line.last.id in best else "muted" if not line.last.hopeful else "text"
        look = painted(self.app.theme_variables, ink) + Style(bold=line.last.id in best)
        muted, tone = (painted(self.app.theme_variables, name) for name in ("muted", colour))
        guides = line.guides if len(line.guides) <= width // 2 else "…" + line.guides[1 - width // 2 :]
        room = max(1, width - len(guides) - 2 - SCORE)
        name = Content(label("".join(beam.text for beam in line.beams))).truncate(room, ellipsis=True)
        if here:
            page += self.mark()
        parts = [
            Segment(guides, page + muted),
            Segment(f"{mark} ", page + tone),
            Segment(name.plain + " " * (room - name.cell_length), page + look),
            Segment(f"{line.last.score:>{SCORE}.3f}", page + muted),
        ]
        return Strip(parts).adjust_cell_length(width, page)

    # The cursor

    @property
    def place(self) -> int:
        return next((place for place, line in enumerate(self.rows) if line.beams[0] is self.first), 0)

    @property
    def marked(self) -> Beam | None:
        """The last beam of the branch under the cursor."""
        return self.rows[self.place].last if self.rows else None

    def go_to(self, row: int) -> None:
        if self.rows:
            self.first = self.rows[max(0, min(row, len(self.rows) - 1))].beams[0]
        self.reveal()

    def reveal(self) -> None:
        """Scroll to the cursor and announce it."""
        super().reveal()
        self.post_message(self.Moved())
        self.refresh()

    def action_up(self) -> None:
        if self.first and self.first.parent:
            self.find(self.first.parent)

    def action_into(self) -> None:
        if (beam := self.marked) and beam.children:
            self.find(max(beam.children, key=lambda child: (child.hopeful, child.score)))

    def action_best(self) -> None:
        if path := self.best_path():
            self.find(path[-1])

    def find(self, beam: Beam) -> None:
        """Move the cursor to the branch with this beam."""
        self.go_to(next((place for place, line in enumerate(self.rows) if beam in line.beams), self.place))

    def action_prune(self) -> None:
        self.pruned = not self.pruned
        self.lay_out()


class BeamText(Widget):
    """The text up to the cursor; only its end if there is no room for all."""

    beam: reactive[Beam | None] = reactive(None, always_update=True)

    def render(self) -> Content:
        if not (beam := self.beam):
            return Content.styled("reading the prompt", "$muted")
        text = printable("".join(one.text for one in beam.path))
        width, rows = max(1, self.content_size.width), max(1, self.content_size.height - 1)
        lines = Content(text).wrap(width)
        about = {"going": "active", "passed": "continued", "pruned": "pruned", "finished": "finished"}[beam.state]
        told = f"{len(beam.path):,} tokens · score {beam.score:.3f} · {about}"
        return Content("\n").join([*lines[-rows:], Content.styled(told, "$muted")])


class BeamScreen(EndsOnce, Screen[Beam | None]):
    """Dismisses with the beam to become the answer, or None."""

    CSS = """
    BeamScreen .bar {
        padding: 0 2;
    }
    BeamText {
        height: 6;
        padding: 0 2;
    }
    """
    BINDINGS = [
        Binding("escape", "back", "Back", key_display="esc", id="beams.leave"),
        Binding("s", "stop", "Stop", id="beams.stop"),
    ]

    def __init__(self, search: BeamTree, growing: Callable[[], bool], stop: Callable[[], object]) -> None:
        """`stop` ends the search, and the best text becomes the answer."""
        super().__init__()
        self.search, self.growing, self.stop = search, growing, stop
        self.beams, self.text, self.heading = BeamLines(search), BeamText(), Static(classes="bar")

    def compose(self) -> ComposeResult:
        yield self.heading
        yield self.beams
        yield self.text
        yield Keys()

    def on_mount(self) -> None:
        self.beams.focus()
        self.pulse = self.set_interval(PAUSE, self.grow)
        self.grow()

    def grow(self) -> None:
        """Update to the state of the search."""
        growing = self.growing()
        self.beams.grow()
        count = self.search.count
        state = "searching" if growing else "ended"
        told = f"   {state} · {count['going']} active · {count['finished']} finished · {count['pruned']} pruned"
        self.heading.update(Content.assemble(("Beams", "bold $accent"), (told, "$muted")))
        if not growing:
            self.pulse.stop()
            self.refresh_bindings()

    @on(BeamLines.Moved)
    def show_text(self) -> None:
        self.text.beam = self.beams.marked

    def action_take(self) -> None:
        """Take the beam under the cursor as the answer, or as its beginning."""
        if self.beams.marked:
            self.dismiss(self.beams.marked)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.growing() if action == "stop" else True

    def action_stop(self) -> None:
        self.stop()

    def action_back(self) -> None:
        self.dismiss(None)
