"""Records a screencast of the real program, in a home of its own: the built-in model goes on with its example.

pip install playwright && apt-get install chromium imagemagick
PYTHONPATH=. python packaging/desktop/screencast.py docs/pictures/screencast.gif [CHROMIUM]
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, async_playwright

from chatapp.desktop.bridge import Bridge
from chatapp.desktop.browser import BrowserPage
from chatapp.desktop.state import WindowState

FRAME = 0.15
"""Seconds between two pictures."""


async def film(page: Page, folder: Path, seconds: float) -> None:
    """Take pictures for so long."""
    for _ in range(int(seconds / FRAME)):
        number = len(list(folder.glob("*.png")))
        await page.screenshot(path=folder / f"{number:04}.png")
        await asyncio.sleep(FRAME)


async def record(folder: Path, chromium: str) -> None:
    """Let the model go on, and look at how sure it was of each token."""
    bridge = Bridge(BrowserPage(folder), WindowState(columns=92, rows=26), folder)
    served = asyncio.create_task(bridge.run(await bridge.open()))
    async with async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 800, "height": 440}, color_scheme="dark")
        await page.goto(bridge.door.address)
        rows = page.locator(".xterm-rows")
        await rows.get_by_text("ready").first.wait_for()
        await film(page, folder, 1)
        await page.keyboard.press("Control+j")
        await film(page, folder, 4)
        await page.keyboard.press("Control+t")
        await film(page, folder, 3)
        await browser.close()
    await bridge.end()
    await served


if __name__ == "__main__":
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        os.environ["CHATAPP_HOME"] = f"{name}/home"
        asyncio.run(record(Path(name), sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/chromium"))
        pictures = sorted(str(path) for path in Path(name).glob("*.png"))
        command = ["convert", "-delay", str(int(100 * FRAME)), "-loop", "0", *pictures]
        subprocess.run([*command, "+dither", "-colors", "48", "-layers", "Optimize", str(target)], check=True)
