"""The window in a real Chromium: typed in, scrolled, resized, dropped on, and timed.

    pip install playwright; apt-get install chromium
    PYTHONPATH=tests:tests/offline python -m drills.window FOLDER [CHROMIUM]

Pictures go to FOLDER, to be looked at; figures to standard output. Nothing is fetched: the model is a script.
"""

import asyncio
import os
import re
import sys
import time
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from chatapp.desktop.bridge import Bridge
from chatapp.desktop.state import WindowState
from support.windows import RecordingFace

SCRIPTED = (sys.executable, "-m", "support.window_screen")
PAUSE = "0.0035"
"""Seconds of a token, so that a busy machine writes some 200 in a second."""
SECONDS = 15
KEYS = 150
TICKS = os.sysconf("SC_CLK_TCK")
WATCH = """() => {
  window.latencies = []; let pressed = 0;
  addEventListener('keydown', () => { pressed = performance.now(); }, true);
  new MutationObserver(() => {
    if (!pressed) return;
    const begun = pressed; pressed = 0;
    requestAnimationFrame(() => setTimeout(() => latencies.push(performance.now() - begun)));
  }).observe(document.querySelector('.xterm-rows'), { subtree: true, childList: true, characterData: true });
}"""
DROP = """([kind, name, text]) => {
  const data = new DataTransfer();
  if (kind === 'file') data.items.add(new File([text], name)); else data.setData('text/plain', text);
  document.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
CHARACTERS = "─│┌┐└┘├┤┬┴┼ ▁▂▃▄▅▆▇█ ░▒▓ ⠁⠃⠇⡇⣇⣧⣷⣿ ●○▲▼ ✓✗ 漢字かな 한국어 🙂🚀 é ñ Ω Ж __init__"


def processor_time(root: int) -> float:
    """Seconds of processor time of a process and of all below it."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            spent[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    below = {root}
    while more := {one for one, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(spent.get(one, 0.0) for one in below)


async def text_of(page: Page) -> str:
    return str(await page.locator(".xterm-rows").inner_text())


async def seen(page: Page, text: str) -> None:
    """Wait until a text is on the screen."""
    end = time.monotonic() + 20
    while text not in (await text_of(page)).replace("\u00a0", " ").replace("\n", ""):  # long lines are wrapped
        assert time.monotonic() < end, f"not on the screen: {text!r}"
        await asyncio.sleep(0.02)


async def tokens(page: Page) -> int:
    """How many tokens the screen says have been written."""
    found = re.search(r"([\d,]+) tokens", (await text_of(page)).replace("\u00a0", " "))
    return int(found[1].replace(",", "")) if found else 0


async def clear(page: Page) -> None:
    """Empty the prompt."""
    await page.keyboard.press("Control+u")


async def use(page: Page, bridge: Bridge, pictures: Path) -> None:
    """Do what a user does, and look."""
    await page.screenshot(path=pictures / "1-first.png")

    await page.evaluate("text => navigator.clipboard.writeText(text)", CHARACTERS)
    await page.keyboard.press("Control+v")
    await seen(page, "__init__")
    await page.screenshot(path=pictures / "2-characters.png")
    await clear(page)

    await page.evaluate(WATCH)
    for number in range(KEYS):
        await page.keyboard.press("abcdefghij"[number % 10])
        await asyncio.sleep(0.05)
    latencies = sorted(await page.evaluate("latencies"))
    median, most = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.95)]
    print(f"key to screen: median {median:.0f} ms, p95 {most:.0f} ms ({len(latencies)} keys)")
    await clear(page)

    await page.evaluate(DROP, ["text", "", "a dropped text"])
    await seen(page, "a dropped text")
    await clear(page)
    await page.evaluate(DROP, ["file", "notes.md", "# Notes\n"])
    await seen(page, "notes.md")
    await page.screenshot(path=pictures / "3-dropped.png")
    await clear(page)

    await page.keyboard.type("hello")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("world")
    await page.keyboard.press("Enter")
    await seen(page, "writing")
    await asyncio.sleep(2)
    before, count, start = processor_time(os.getpid()), await tokens(page), time.monotonic()
    await asyncio.sleep(SECONDS)
    took, wall = processor_time(os.getpid()) - before, time.monotonic() - start
    rate = (await tokens(page) - count) / wall
    print(f"processors at {rate:.0f} tokens/s: {100 * took / wall:.0f} % of one, app, browser and this drill")
    await page.screenshot(path=pictures / "4-streaming.png")
    await page.keyboard.press("Escape")
    await seen(page, "stopped")

    await page.mouse.move(400, 300)
    await page.mouse.wheel(0, -2_000)
    await asyncio.sleep(1)
    await page.screenshot(path=pictures / "5-scrolled.png")
    await page.mouse.move(80, 200)
    await page.mouse.down()
    await page.mouse.move(500, 260, steps=10)
    await page.mouse.up()
    await asyncio.sleep(2)
    await page.screenshot(path=pictures / "6-selected.png")
    await page.keyboard.press("Control+c")
    await asyncio.sleep(3)
    print("copied:", repr(await page.evaluate("navigator.clipboard.readText()"))[:80])

    for _ in range(4):
        await page.keyboard.press("Control+Equal")
    await asyncio.sleep(0.5)
    print(f"zoomed: {bridge.state.zoom} px, {bridge.state.columns} x {bridge.state.rows}")
    await page.screenshot(path=pictures / "7-zoomed.png")
    await page.keyboard.press("Control+0")
    for width, height in ((500, 400), (1600, 1000), (1180, 760)):
        await page.set_viewport_size({"width": width, "height": height})
        await asyncio.sleep(5)  # a long answer is laid out anew
        await page.screenshot(path=pictures / f"8-{width}.png")
    await page.emulate_media(color_scheme="light")
    await asyncio.sleep(5)
    await page.screenshot(path=pictures / "9-light.png")


async def open_window(browser: Browser, pictures: Path, scale: int) -> None:
    """Open the window at a scale, and use it."""
    bridge = Bridge(RecordingFace(), WindowState(), pictures / "dropped")
    context = await browser.new_context(
        viewport={"width": 1180, "height": 760},
        device_scale_factor=scale,
        color_scheme="dark",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = await context.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("request", lambda sent: foreign.append(sent.url) if bridge.door.host not in sent.url else None)
    start = time.monotonic()
    served = asyncio.create_task(bridge.run(await bridge.open((*SCRIPTED, PAUSE))))
    await page.goto(bridge.door.address)
    await seen(page, "Ask the model"[1:])
    print(f"scale {scale}: first frame {1000 * (time.monotonic() - start):.0f} ms after the start of the app")
    await seen(page, "ready")
    if scale == 1:
        await use(page, bridge, pictures)
    else:
        await page.screenshot(path=pictures / "10-twice.png")
    print("errors of the page:", errors or "none", "· foreign requests:", foreign or "none")
    await context.close()
    await bridge.end()
    await served


async def main(pictures: Path, chromium: str) -> None:
    """Open the window on a usual screen and on one of twice the resolution."""
    pictures.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scale in (1, 2):
            await open_window(browser, pictures, scale)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/chromium"))
