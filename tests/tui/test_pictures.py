"""Pictures of every screen; SNAPSHOTS=update takes new ones, to be looked at."""

import asyncio
import os
import time
from difflib import unified_diff
from pathlib import Path

import pytest
import textual
from textual.widgets import Input

from support.pictures import picture
from support.scenes import SCENES, remember
from support.screen_driver import Driver, running

FOLDER = Path(__file__).parents[1] / "__snapshots__" / "test_tui"
VERSION = FOLDER / "textual-version"


UPDATING = os.environ.get("SNAPSHOTS") == "update"
SECONDS = 1.0 if UPDATING else 10.0
"""For which threads may bring what they read before a picture is another one."""


async def difference(driver: Driver, name: str, tmp_path: Path) -> str:
    """How the screen is another picture than the one of this name; nothing where it is not, or comes to be it."""
    kept = FOLDER / f"{name}.txt"
    wanted = "" if UPDATING else kept.read_text(encoding="utf-8")
    end = time.monotonic() + SECONDS
    while (found := picture(driver.app)) != wanted and time.monotonic() < end:
        await asyncio.sleep(0.02)
        await driver.pilot.pause()
    if UPDATING:
        FOLDER.mkdir(parents=True, exist_ok=True)
        VERSION.write_text(textual.__version__)
        kept.write_text(found, encoding="utf-8")
    elif found != wanted:
        (tmp_path / f"{name}.txt").write_text(found, encoding="utf-8")
        lines = unified_diff(wanted.splitlines(), found.splitlines(), lineterm="", n=0)
        return f"the screen looks different; diff {kept} {tmp_path / name}.txt\n" + "\n".join(lines) + "\n"
    return ""


SMALL, MIDDLE, WIDE = (80, 24), (120, 40), (200, 60)
LIGHT = ("attachments", "columns", "compared", "finished", "heat", "models", "theme")
"""Scenes whose colours are chosen by hand, and not only the theme's: in a light theme too."""
WIDER = ("columns", "finished", "latencies", "models", "sidebar")
"""Scenes that are laid out in another way where there is room."""
BEGUN_ANEW = ("jump", "theme")
"""Scenes that a resize ends, or another theme changes: each picture is of an app of its own."""


def pictures_of(scene: str) -> list[tuple[tuple[int, int], str]]:
    """The sizes and themes in which a scene is shown, one after the other."""
    light = [(MIDDLE, "paper")] if scene in LIGHT else []
    wide = [(WIDE, "midnight")] if scene in WIDER else []
    return [(SMALL, "midnight"), (MIDDLE, "midnight"), *light, *wide]


TAKEN = [
    (scene, taken)
    for scene in SCENES
    for taken in ([[one] for one in pictures_of(scene)] if scene in BEGUN_ANEW else [pictures_of(scene)])
]


def named(scene: str, size: tuple[int, int], theme: str) -> str:
    """The name of a picture."""
    return f"{scene}-{size[0]}x{size[1]}-{theme}"


@pytest.mark.parametrize(("scene", "pictures"), TAKEN, ids=[named(scene, *pictures[0]) for scene, pictures in TAKEN])
async def test_the_screen_looks_as_in_its_pictures_however_it_is_resized(
    scene: str, pictures: list[tuple[tuple[int, int], str]], tmp_path: Path
) -> None:
    if not UPDATING and (taken := VERSION.read_text()) != textual.__version__:
        pytest.skip(f"the pictures were taken with Textual {taken}, this is {textual.__version__}")
    path = tmp_path / "history.db"
    shown = SCENES[scene]
    wrong = ""
    if shown.stored:
        remember(path)
    size, theme = pictures[0]
    async with running(shown.engine(), size=size, theme=theme, history=path if shown.stored else None) as driver:
        driver.app.animation_level = "none"
        await shown.play(driver)
        for size, theme in pictures:
            driver.app.theme = theme
            await driver.pilot.resize_terminal(*size)
            for line in driver.app.screen.query(Input):
                line.cursor_blink = False  # a picture has the cursor, however late it is taken
            await driver.pilot.pause()
            wrong += await difference(driver, named(scene, size, theme), tmp_path)
    assert not wrong, wrong


def test_every_picture_is_of_a_scene() -> None:
    taken = {named(scene, *one) for scene in SCENES for one in pictures_of(scene)}
    assert {path.stem for path in FOLDER.glob("*.txt")} == taken
