"""Widget: Markdown by a model."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Markdown
from textual.widgets._markdown import MarkdownBlock, MarkdownTable, MarkdownTableContent

NARROWEST = 5
"""Cells of a column: below its padding, a row would be wider than the screen."""


class Table(MarkdownTable):
    """A table that can be scrolled sideways where its columns would be too narrow to read."""

    DEFAULT_CSS = "Table { overflow-x: auto; scrollbar-size-horizontal: 1; }"

    def compose(self) -> ComposeResult:
        for content in super().compose():
            if isinstance(content, MarkdownTableContent):
                content.styles.min_width = (NARROWEST + 1) * len(content.headers) + 1
            yield content


class Formatted(Markdown):
    """Markdown whose tables fit."""

    def get_block_class(self, block_name: str) -> type[MarkdownBlock]:
        return Table if block_name == "table_open" else super().get_block_class(block_name)
