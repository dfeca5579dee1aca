"""Whatever a model writes is shown harmlessly, and soon enough: a corpus through the widgets that show it."""

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, Static

from chatapp.text.clipboard import code_blocks
from chatapp.text.markdown import DEEPEST, ENDED, LONGEST_LINE, MOST, STRUCTURE, Tame, shared_parser, tame
from chatapp.text.printable import printable
from chatapp.tui.chat.completion_page import CompletionPage
from chatapp.tui.prompt import Prompt
from chatapp.tui.widgets.formatted import Formatted
from chatapp.tui.widgets.prose import Coloured, Settled
from support import hostile
from support.hostile import UNSAFE, check

HANG = 30.0
"""Seconds of processor time that nothing takes, on whatever machine, unless it grows faster than its input."""
HEAVIEST = (
    "1 MB without a line end", "1 MB line of code", "30,000 lines of code", "30,000 items", "huge table",
    "nested quotes", "nested lists", "fences", "emphasis",
)  # fmt: skip
"""What widgets are given; parsers get the whole corpus, and widgets that parse no Markdown long lines, and many."""

Show = Callable[[Widget, str], Awaitable[None]]


@dataclass(frozen=True)
class Shown:
    """A way in which the application shows what a model wrote."""

    make: Callable[[], Widget]
    show: Show


async def stream(widget: Widget, text: str) -> None:
    """As an answer grows: in fragments of what arrives in a twentieth of a second."""
    assert isinstance(widget, Markdown)
    tame, growing = Tame(), Markdown.get_stream(widget)
    step = max(7, len(text) // 50)
    for start in range(0, len(text), step):
        await growing.write(tame.feed(printable(text[start : start + step])))
    await growing.write(tame.rest())
    await growing.stop()


async def update(widget: Widget, text: str) -> None:
    """As an answer is shown that is whole."""
    assert isinstance(widget, Markdown)
    await widget.update(tame(text))


async def settle(widget: Widget, text: str) -> None:
    """As an answer is shown that is long past."""
    assert isinstance(widget, Static)
    widget.update(Coloured(text, widget.app))


async def put(widget: Widget, text: str) -> None:
    """As a question is shown."""
    assert isinstance(widget, Static)
    widget.update(printable(text))


async def draft(widget: Widget, text: str) -> None:
    assert isinstance(widget, Prompt)
    widget.draft = text


async def write(widget: Widget, text: str) -> None:
    """As a model continues a text."""
    assert isinstance(widget, CompletionPage)
    widget.begin_writing()
    widget.add(printable(text))
    widget.release()


async def paste(widget: Widget, text: str) -> None:
    assert isinstance(widget, CompletionPage)
    widget.load_text("")
    widget.insert(text)


def markdown() -> Widget:
    return Formatted(parser_factory=shared_parser, open_links=False)


def widgets_under_test() -> dict[str, Shown]:
    """What shows texts by models, files and clipboards."""
    return {
        "answer, growing": Shown(markdown, stream),
        "answer": Shown(markdown, update),
        "answer, settled": Shown(Settled, settle),
        "question": Shown(lambda: Static(markup=False), put),
        "notebook": Shown(CompletionPage, write),
        "notebook, pasted": Shown(CompletionPage, paste),
        "prompt": Shown(lambda: Prompt(root=Path("/nowhere")), draft),
    }


class Page(App[None]):
    """A page with the widget."""

    CSS = "Static { height: auto; }"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield self.widget


async def shown(way: Shown, *texts: str) -> str:
    """The screen with each of the texts, at its beginning and at its end; in time."""
    app, seen = Page(way.make()), []
    async with app.run_test(size=(80, 24)) as pilot:
        for text in texts:
            begun = time.process_time()
            if isinstance(app.widget, Markdown):
                await app.widget.update("")
            await way.show(app.widget, text)
            await pilot.pause()
            seen.append(check(app))
            app.query_one(VerticalScroll).scroll_end(animate=False, immediate=True)
            await pilot.pause()
            seen.append(check(app))
            assert time.process_time() - begun < HANG
    return "\n".join(seen)


@pytest.mark.parametrize("way", widgets_under_test())
async def test_nothing_but_text_and_colour_reaches_the_terminal(way: str) -> None:
    await shown(widgets_under_test()[way], *hostile.SMALL.values())


@pytest.mark.parametrize(
    ("way", "case"),
    [
        *(("answer", case) for case in HEAVIEST),
        *(("answer, settled", case) for case in ("1 MB line of code", "30,000 lines of code", "huge table")),
        *((way, case) for way in ("notebook", "prompt") for case in ("1 MB without a line end", "30,000 items")),
    ],
)
async def test_nothing_stalls_the_screen(way: str, case: str) -> None:
    await shown(widgets_under_test()[way], hostile.LARGE[case])


@pytest.mark.parametrize("case", ["1 MB of words", "huge table"])
async def test_nothing_stalls_the_screen_while_it_grows(case: str) -> None:
    await shown(widgets_under_test()["answer, growing"], hostile.LARGE[case])


@pytest.mark.parametrize("way", ["answer", "answer, settled", "answer, growing"])
async def test_links_images_and_html_are_shown_as_they_were_written(way: str) -> None:
    text = "see [this](https://example.invalid) ![i](j.png) <b>bold</b> <http://x.invalid> &amp;\n\n[a]: http://y\n"
    seen = await shown(widgets_under_test()[way], text)
    for part in (
        "[this](https://example.invalid)",
        "![i](j.png)",
        "<b>bold</b>",
        "<http://x.invalid>",
        "[a]: http://y",
    ):
        assert part in seen


# Without a screen


@pytest.mark.parametrize("case", hostile.ALL)
def test_printable_leaves_nothing_that_a_terminal_obeys(case: str) -> None:
    begun = time.process_time()
    assert not UNSAFE.search(printable(hostile.ALL[case]))
    assert time.process_time() - begun < HANG


@pytest.mark.parametrize("case", hostile.ESCAPES)
def test_a_sequence_split_anywhere_is_caught(case: str) -> None:
    text = hostile.ESCAPES[case]
    for place in range(len(text)):
        assert printable(text[:place]) + printable(text[place:]) == printable(text)


@pytest.mark.parametrize("case", hostile.ALL)
def test_code_blocks_are_found_in_time(case: str) -> None:
    begun = time.process_time()
    code_blocks(hostile.ALL[case])
    assert time.process_time() - begun < HANG


@pytest.mark.parametrize("case", hostile.ALL)
def test_tamed_markdown_is_bounded_and_parsed_in_time(case: str) -> None:
    begun = time.process_time()
    text = tame(hostile.ALL[case])
    tokens = shared_parser().parse(text)
    assert time.process_time() - begun < HANG
    assert max(map(len, text.split("\n"))) <= LONGEST_LINE + 50
    assert max((token.level for token in tokens), default=0) <= 4 * DEEPEST + 8
    assert len(tokens) < 12 * STRUCTURE


@pytest.mark.parametrize("case", hostile.ALL)
def test_no_word_is_lost_by_taming_up_to_where_it_says_that_it_ends(case: str) -> None:
    def words(text: str) -> str:
        return re.sub(r"[\s~\\`]|python", "", text)

    text, whole = tame(hostile.ALL[case]), words(printable(hostile.ALL[case]))
    if ENDED in text:
        assert len(text) > MOST[1] or text.count("\n") > MOST[0]
        assert whole.startswith(words(text.partition(ENDED)[0]))
    else:
        assert words(text) == whole


@pytest.mark.parametrize("step", [1, 2, 7, 100])
@pytest.mark.parametrize("case", [*hostile.LINKS, "fences", "our own fence", "huge table"])
def test_fragments_are_tamed_as_the_whole_is(case: str, step: int) -> None:
    text, taming = printable(hostile.ALL[case])[:40_000], Tame()
    grown = "".join(taming.feed(text[start : start + step]) for start in range(0, len(text), step)) + taming.rest()
    assert grown == tame(text)


@pytest.mark.parametrize(
    "text",
    [
        "# Heading\n\nText with *emphasis* and `code`.\n\n- one\n  - two\n\n1. first\n2. second\n\n> quote\n\n---\n",
        "```python\ndef f():\n    return '|'\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "1. item\n\n   ```sh\n   ls\n   ```\n\n* * *\n\n> > nested\n",
        "* * * * * * * * * * * *\n",
    ],
)
def test_ordinary_markdown_stays_as_it_is(text: str) -> None:
    assert tame(text) == text


def test_a_long_block_of_code_goes_on_in_the_next_with_its_language() -> None:
    divided = tame("- ```python\n" + "  x = 1\n" * 1000 + "  ```\n")
    blocks = code_blocks(divided)
    assert len(blocks) == divided.count("python\n") == 4
    assert "".join(blocks) == "x = 1\n" * 1000


def test_an_entity_cannot_bring_a_control_character_back() -> None:
    content = "".join(
        child.content for token in shared_parser().parse("&#x202e;x &#x2066;") for child in token.children or ()
    )
    assert content == "\ufffdx \ufffd"
