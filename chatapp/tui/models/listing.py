"""Widget: models in sections; only the visible lines are drawn, so thousands scroll as fast as ten."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual

from chatapp.tui.models.columns import Layout, choose_columns, draw_heads, draw_line
from chatapp.tui.widgets.rows import Rows

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel
    from chatapp.models.jobs import Job


Section = tuple[str, Sequence["ListedModel"]]
"""A title, and its models."""


class ModelList(Rows):
    """A list of models, one of which is selected."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"models--selected", "models--title", "models--row"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "walk(-1)", "Up", show=False),
        Binding("j", "walk(1)", "Down", show=False),
        Binding("tab", "section(1)", "Section", show=False),
        Binding("shift+tab", "section(-1)", "Previous section", show=False),
    ]

    HEADING = 1
    rows: list[str | ListedModel]
    """Titles and models, top to bottom."""
    place = 0

    class Selected(Message):
        """The selection has changed."""

    class Used(Message):
        """The selected model was double-clicked."""

    def __init__(self, current: str) -> None:
        super().__init__()
        self.current = current
        """The name of the model in use."""
        self.downloading = False
        """Whether to select a recommended download first."""
        self.rows = []
        self.working: Mapping[str, Job] = {}
        """Jobs by model name."""
        self.places: list[int] = []
        """Indices of the rows that are models."""
        self.plan: Layout = choose_columns(80)

    @property
    def selected(self) -> ListedModel | None:
        """The selected model, if any."""
        found = self.rows[self.place] if self.place < len(self.rows) else None
        return None if isinstance(found, str) else found

    def show(self, sections: Sequence[Section]) -> None:
        """Show these models, keeping the selection if possible."""
        before, place = self.selected, self.place
        self.rows = []
        for title, models in sections:
            if models:
                self.rows += [title, *models]
        placed = [(at, one) for at, one in enumerate(self.rows) if not isinstance(one, str)]
        self.places = [at for at, _ in placed]
        if before:
            same = (at for at, one in placed if one.name == before.name)
        else:
            same = (at for at, one in placed if self.downloading and one.recommended and one.state == "absent")
        self.place = next(same, self.nearest(self.place, 1))
        self.fit()
        if self.place != place:
            self.reveal()
        if self.selected != before:
            self.post_message(self.Selected())

    def work_on(self, working: Mapping[str, Job]) -> None:
        """Show jobs on their models."""
        self.working = working
        self.refresh()

    def fit(self) -> None:
        """Adapt to the width and the number of rows."""
        names = [one.name for one in self.rows if not isinstance(one, str)]
        self.plan = choose_columns(self.scrollable_content_region.width or 80, names)
        self.measure()
        self.refresh()

    def on_resize(self) -> None:
        self.fit()

    def watch_show_vertical_scrollbar(self) -> None:
        self.fit()

    # Moving

    def nearest(self, place: int, step: int) -> int:
        """The index of the nearest model in a direction, or else in the other."""
        found = bisect_left(self.places, place) if step > 0 else bisect_right(self.places, place) - 1
        return self.places[max(0, min(found, len(self.places) - 1))] if self.places else 0

    def go_to(self, row: int) -> None:
        found = self.nearest(row, 1 if row > self.place else -1)
        if found != self.place:
            self.place = found
            self.refresh()
            self.post_message(self.Selected())
        self.reveal()

    def reveal(self) -> None:
        """Scroll to the selected model, including the title above the first."""
        top = 0 if self.place == 1 else self.place
        self.scroll_to_region(Region(0, top, 1, self.place - top + 2), animate=False, force=True)

    def action_page(self, pages: int) -> None:
        self.go_to(self.place + pages * max(1, self.size.height - 3))

    def action_section(self, step: int) -> None:
        titles = [at for at, one in enumerate(self.rows) if isinstance(one, str)]
        inside = sum(at < self.place for at in titles) - 1
        if titles:
            self.go_to(titles[(inside + step) % len(titles)] + 1)

    def on_click(self, event: events.Click) -> None:
        if event.y < 1 or event.y - 1 + self.scroll_offset.y not in self.places:
            event.prevent_default()  # it is not a click on a model
        elif event.chain == 2:
            self.post_message(self.Used())

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self.drawn(draw_heads(self.plan), "models--title", width)
        place = self.scroll_offset.y + y - 1
        if place >= len(self.rows):
            return self.drawn(Content(), "models--row", width)
        found = self.rows[place]
        if isinstance(found, str):
            return self.drawn(Content.assemble((f" {found}", "bold $accent")), "models--title", width)
        job = self.working.get(found.name)
        content = draw_line(found, job, self.plan, current=found.name == self.current)
        return self.drawn(content, "models--selected" if place == self.place else "models--row", width)

    def drawn(self, content: Content, part: str, width: int) -> Strip:
        """A line in the style of a component class."""
        style = self.get_visual_style(part)
        strips = Visual.to_strips(self, content.truncate(width), width, 1, style, pad=True)
        return strips[0].extend_cell_length(width, style.rich_style)
