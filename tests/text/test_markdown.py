"""Parsers of Markdown are shared between threads."""

from collections.abc import Callable

import pytest
from markdown_it import MarkdownIt
from markdown_it.ruler import Ruler

from chatapp.history import inert, pages
from chatapp.text import markdown

TEXT = "# a\n\n> b *c* `d` <e>\n\n- f\n\n|g|h|\n|-|-|\n|i|~~j~~|\n\n~~~py\nk = 1\n~~~\n"


@pytest.mark.parametrize("make", [markdown.shared_parser, inert.shared_parser, pages.shared_parser])
def test_a_parser_is_whole_before_threads_share_it(
    make: Callable[[], MarkdownIt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rules that are being compiled, another thread found none: "none of the block rules matched", and the end."""
    parser = make()

    def late(_: Ruler[object]) -> None:
        raise AssertionError("rules are compiled while threads may parse")

    monkeypatch.setattr(Ruler, "__compile__", late)
    assert parser.render(TEXT)
    with pytest.raises(AssertionError, match="rules are compiled"):
        MarkdownIt().render(TEXT)
