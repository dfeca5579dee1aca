"""Markdown that does not change any more, its prose no wider than people like to read."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.constrain import Constrain
from rich.markdown import BlockQuote, Heading, ListElement, Markdown, Paragraph

WIDEST = 100
"""Columns of prose; code and tables are as wide as there is room."""


def narrowed(options: ConsoleOptions) -> ConsoleOptions:
    """The options for prose."""
    return options.update_width(min(WIDEST, options.max_width))


def constrained(parts: RenderResult) -> Iterable[Constrain]:
    """The parts of a paragraph or heading, within the width of prose."""
    return (Constrain(part, WIDEST) for part in parts)  # type: ignore[arg-type]  # these yield no segments


class NarrowParagraph(Paragraph):
    """A paragraph within the width of prose."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from constrained(super().__rich_console__(console, options))


class NarrowHeading(Heading):
    """A heading within the width of prose."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from constrained(super().__rich_console__(console, options))


class NarrowList(ListElement):
    """A list within the width of prose."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, narrowed(options))


class NarrowQuote(BlockQuote):
    """A quotation within the width of prose."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, narrowed(options))


class Prose(Markdown):
    """Markdown whose prose is no wider than WIDEST."""

    elements = Markdown.elements | {
        "paragraph_open": NarrowParagraph,
        "heading_open": NarrowHeading,
        "bullet_list_open": NarrowList,
        "ordered_list_open": NarrowList,
        "blockquote_open": NarrowQuote,
    }
