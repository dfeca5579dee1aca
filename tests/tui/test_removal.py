"""A widget may be painted between its removal and the next layout: that must not crash the screen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widget import Widget

from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine

MARKDOWN = """# Title

Some **bold**, `code` and a [link](https://example.org).

| a | b |
|---|---|
| 1 | 2 |

- item

> quote

```python
def f(): return 1
```
"""


@asynccontextmanager
async def answered(tmp_path: Path, *keys: str, chats: bool = True) -> AsyncIterator[Driver]:
    engine = ScriptedEngine(MARKDOWN if chats else " one two", can_chat=chats)
    async with running(engine, size=(80, 24), history=tmp_path / "history.db") as driver:
        await driver.type("Say something\n" if chats else "text")
        if not chats:
            await driver.press("ctrl+j")
        await driver.answered()
        await driver.press(*keys)
        await driver.until(lambda: not driver.writing)
        yield driver


async def remove_and_paint(widget: Widget) -> None:
    """Paint at every step, as children are gone before their parents are, and as a timer would right after the last."""
    compositor = widget.screen._compositor

    async def remove() -> None:
        await widget.remove()
        compositor.render_full_update()

    removal = asyncio.ensure_future(remove())
    while not removal.done():
        compositor.render_full_update()
        await asyncio.sleep(0)
    await removal


@pytest.mark.parametrize(
    ("keys", "chats", "selector"),
    [
        ((), True, "Pane"),
        ((), False, "Pane"),
        ((), False, "CompletionPage"),
        ((), True, "Prompt"),
        ((), True, "ChatPage"),
        ((), True, "Markdown"),
        (("slash",), True, "Popup"),
        (("ctrl+s",), True, "SamplingDrawer"),
        (("ctrl+b",), True, "Sidebar"),
        (("f7", "3"), True, "Columns"),
    ],
)
async def test_a_widget_can_be_painted_while_it_is_removed(
    tmp_path: Path,
    keys: tuple[str, ...],
    chats: bool,
    selector: str,
) -> None:
    async with answered(tmp_path, *keys, chats=chats) as driver:
        widget = driver.app.screen.query(selector).first()
        assert widget in widget.screen._compositor.visible_widgets
        await remove_and_paint(widget)
