"""Widget: Markdown written by a model."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.highlight import highlight
from textual.widgets import Markdown, Static
from textual.widgets._markdown import MarkdownBlock, MarkdownFence, MarkdownTable, MarkdownTableContent

from chatapp.tui.widgets.code_colours import CodeColours

NARROWEST = 5
"""Minimum cells of a table column; below its padding, a row would be wider than the screen."""

FAR = 1
"""Screen heights above the window beyond which growing text is not laid out."""


class Table(MarkdownTable):
    """A table that scrolls sideways if its columns would be too narrow to read."""

    DEFAULT_CSS = "Table { overflow-x: auto; scrollbar-size-horizontal: 1; }"

    def compose(self) -> ComposeResult:
        for content in super().compose():
            if isinstance(content, MarkdownTableContent):
                content.styles.min_width = (NARROWEST + 1) * len(content.headers) + 1
            yield content


class Fence(MarkdownFence):
    """A code block in the theme's colours."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        return highlight(code, language=language or None, theme=CodeColours)


class Formatted(Markdown):
    """Markdown whose tables fit; while it grows, blocks far above the window are not laid out."""

    growing = False
    """Whether more text is to come."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # Any: as Markdown has them
        super().__init__(*arguments, **named)
        self.above = Static()
        """Stands in for the blocks that are not laid out."""
        self.columns = 0

    def get_block_class(self, block_name: str) -> type[MarkdownBlock]:
        ours: dict[str, type[MarkdownBlock]] = {"table_open": Table, "fence": Fence, "code_block": Fence}
        return ours.get(block_name) or super().get_block_class(block_name)

    def update(self, markdown: str) -> AwaitComplete:
        """Replace the whole text."""
        self.growing = False
        self.lay_out_all()
        return super().update(markdown)

    def on_resize(self, event: events.Resize) -> None:
        """Exclude far blocks when it has grown; include all when the width has changed."""
        if event.size.width != self.columns:
            self.columns = event.size.width
            self.lay_out_all()
        elif self.growing:
            self.leave_out(FAR * self.app.size.height)

    def leave_out(self, distance: int) -> None:
        """Exclude blocks this many rows above the window from the layout, if that is worth it."""
        blocks = [block for block in self.children if isinstance(block, MarkdownBlock) and block.display]
        limit = -distance - self.region.y
        far = [block for block in blocks[:-2] if block.virtual_region.bottom < limit]
        if not far or far[-1].virtual_region.bottom - far[0].virtual_region.y < distance:
            return
        first = blocks[len(far)]
        with self.app.batch_update():
            for block in far:
                block.display = False
            if not self.above.is_attached:
                self.mount(self.above, before=0)
            self.above.styles.height = first.virtual_region.y - first.styles.margin.top
            self.above.display = True

    def lay_out_all(self) -> None:
        """Include all blocks again."""
        if self.above.display and self.above.is_attached:
            with self.app.batch_update():
                self.above.display = False
                for block in self.children:
                    block.display = block is not self.above
