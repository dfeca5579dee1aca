"""A headless Chromium, for editors whose screen is a page."""

import argparse
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, TimeoutError, sync_playwright

from editors.sample import TYPED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every drill in a browser takes."""
    parser.add_argument("--chatapp", type=Path, default=shutil.which("chatapp"), help="the command to be tried")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for what the editor writes")
    parser.add_argument("--picture", type=Path, help="where a picture of the first ghost text goes")
    parser.add_argument("--record", type=Path, help="where what editor and server say to each other goes")
    parser.add_argument("--port", type=int, default=18771)


@contextmanager
def serve(command: Sequence[str | Path], environment: Mapping[str, str], log: Path) -> Iterator[None]:
    """Run a server while the block lasts, and end whatever it started."""
    with open(log, "w") as out:
        server = subprocess.Popen(
            command, env=dict(environment), stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(20)


@contextmanager
def open_page(chromium: str, address: str, size: tuple[int, int], failure: Path) -> Iterator[Page]:
    """A page at this address; where the block fails, its picture goes to `failure`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            for _ in range(60):  # until the server listens
                try:
                    page.goto(address, wait_until="domcontentloaded")
                    break
                except Exception as error:  # Playwright's own errors have one class
                    if "ERR_CONNECTION_REFUSED" not in str(error):
                        raise
                    page.wait_for_timeout(500)
            try:
                yield page
            except BaseException:
                page.screenshot(path=failure)
                raise
        finally:
            browser.close()


def wait_for_ghost(page: Page, ghost: str) -> None:
    """Type a letter and take it back, until there is ghost text: the model may still be loading."""
    for _ in range(60):
        try:
            page.wait_for_selector(ghost, timeout=2000)
            return
        except TimeoutError:
            page.keyboard.type("x", delay=80)
            page.keyboard.press("Backspace")
    raise TimeoutError("no ghost text")


def drop_and_ask(page: Page, ghost: str, taken: str, *, back: Sequence[str] = ()) -> None:
    """Let Esc drop ghost text, and Alt+\\ ask for it, after what was taken is deleted again.

    `back` are the keys that lead back to the text after Esc.
    """
    for _ in range(len(taken) + 1):
        page.keyboard.press("Backspace")
    page.keyboard.type(TYPED[-1])
    wait_for_ghost(page, ghost)
    page.keyboard.press("Escape")
    page.wait_for_function("ghost => !document.querySelector(ghost)", arg=ghost)
    for keys in back:
        page.keyboard.press(keys)
    page.keyboard.press("Alt+\\")
    page.wait_for_selector(ghost)
    print("dropped, asked for:", page.locator(ghost).all_inner_texts())
    page.keyboard.press("Escape")


def shrink(picture: Path, box: tuple[int, int, int, int]) -> None:
    """Crop a picture to left, top, right, bottom, and give it a palette."""
    with Image.open(picture) as image:
        image.convert("RGB").crop(box).quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)
