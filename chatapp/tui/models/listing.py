"""Widget: models in sections, one in a line; only the lines in view are made, so thousands scroll as well as ten."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from chatapp.tui.models.columns import Layout, choose_columns, draw_heads, draw_line

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel
    from chatapp.models.jobs import Job


@dataclass(frozen=True)
class Section:
    """Models under a title."""

    title: str
    rows: tuple[ListedModel, ...]


class ModelList(ScrollView, can_focus=True):
    """The models, of which one is selected."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"models--selected", "models--title", "models--row"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
        Binding("tab", "section(1)", "Section", show=False),
        Binding("shift+tab", "section(-1)", "Section before", show=False),
    ]
    DEFAULT_CSS = """
    ModelList {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        .models--row { background: $background; color: $text; }
        .models--selected { background: $selection; color: $text; }
        .models--title { background: $background; color: $muted; }
    }
    """

    class Selected(Message):
        """Another model is selected, or none."""

    class Used(Message):
        """The selected model is wanted: it was clicked twice."""

    def __init__(self, current: str) -> None:
        super().__init__()
        self.current = current
        """The model in use."""
        self.downloading = False
        """Whether the first that is selected is one to download."""
        self.lines: list[str | ListedModel] = []
        """Titles and models, from the first to the last."""
        self.working: Mapping[str, Job] = {}
        """What is done with models, by name."""
        self.places: list[int] = []
        """The lines that are models."""
        self.place = 0
        self.plan: Layout = choose_columns(80)

    @property
    def selected(self) -> ListedModel | None:
        """The selected model."""
        found = self.lines[self.place] if self.place < len(self.lines) else None
        return None if isinstance(found, str) else found

    def show(self, sections: Sequence[Section]) -> None:
        """Show other models; the selected one stays selected where it is still there."""
        before, place = self.selected, self.place
        self.lines = []
        for section in sections:
            if section.rows:
                self.lines += [section.title, *section.rows]
        models = [(at, one) for at, one in enumerate(self.lines) if not isinstance(one, str)]
        self.places = [at for at, _ in models]
        if before:
            same = (at for at, one in models if one.name == before.name)
        else:
            same = (at for at, one in models if self.downloading and one.recommended and one.state == "absent")
        self.place = next(same, self.nearest(self.place, 1))
        self.fit()
        if self.place != place:
            self.reveal()
        if self.selected != before:
            self.post_message(self.Selected())

    def work_on(self, working: Mapping[str, Job]) -> None:
        """Show what is done with models."""
        self.working = working
        self.refresh()

    def fit(self) -> None:
        """Take up the width, and how many lines there are."""
        names = [one.name for one in self.lines if not isinstance(one, str)]
        self.plan = choose_columns(self.scrollable_content_region.width or 80, names)
        self.virtual_size = Size(1, len(self.lines) + 1)
        self.refresh()

    def on_resize(self) -> None:
        self.fit()
        self.reveal()

    def watch_show_vertical_scrollbar(self) -> None:
        self.fit()

    # Moving

    def nearest(self, place: int, step: int) -> int:
        """The place of the model at or after this place in a direction, else before it."""
        found = bisect_left(self.places, place) if step > 0 else bisect_right(self.places, place) - 1
        return self.places[max(0, min(found, len(self.places) - 1))] if self.places else 0

    def select(self, place: int, step: int = 1) -> None:
        """Select the model at a place, or the next one in a direction."""
        found = self.nearest(place, step)
        if found != self.place:
            self.place = found
            self.refresh()
            self.post_message(self.Selected())
        self.reveal()

    def reveal(self) -> None:
        """Scroll to the selected model; to the title above the first."""
        top = 0 if self.place == 1 else self.place
        self.scroll_to_region(Region(0, top, 1, self.place - top + 2), animate=False, force=True)

    def action_move(self, step: int) -> None:
        self.select(self.place + step, 1 if step > 0 else -1)

    def action_page(self, step: int) -> None:
        self.select(self.place + step * max(1, self.size.height - 3), step)

    def action_section(self, step: int) -> None:
        titles = [at for at, one in enumerate(self.lines) if isinstance(one, str)]
        inside = sum(at < self.place for at in titles) - 1
        if titles:
            self.select(titles[(inside + step) % len(titles)] + 1)

    def on_click(self, event: events.Click) -> None:
        place = event.y - 1 + self.scroll_offset.y
        if event.y < 1 or place >= len(self.lines) or isinstance(self.lines[place], str):
            return
        self.select(place)
        if event.chain == 2 and self.selected:
            self.post_message(self.Used())

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self.drawn(draw_heads(self.plan), "models--title", width)
        place = self.scroll_offset.y + y - 1
        if place >= len(self.lines):
            return self.drawn(Content(), "models--row", width)
        found = self.lines[place]
        if isinstance(found, str):
            return self.drawn(Content.assemble((f" {found}", "bold $accent")), "models--title", width)
        job = self.working.get(found.name)
        content = draw_line(found, job, self.plan, current=found.name == self.current)
        return self.drawn(content, "models--selected" if place == self.place else "models--row", width)

    def drawn(self, content: Content, part: str, width: int) -> Strip:
        """One line in the colours of a part."""
        style = self.get_visual_style(part)
        strips = Visual.to_strips(self, content.truncate(width), width, 1, style, pad=True)
        return strips[0].extend_cell_length(width, style.rich_style)
