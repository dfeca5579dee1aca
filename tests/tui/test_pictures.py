"""Pictures of every screen; SNAPSHOTS=update takes new ones, to be looked at."""

import asyncio
import os
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


def difference(found: str, name: str, tmp_path: Path) -> str:
    """How this is another picture than the one of this name; nothing where it is not."""
    if os.environ.get("SNAPSHOTS") == "update":
        FOLDER.mkdir(parents=True, exist_ok=True)
        VERSION.write_text(textual.__version__)
        (FOLDER / f"{name}.txt").write_text(found, encoding="utf-8")
    if not VERSION.exists():
        pytest.skip("no pictures have been taken yet")
    if (taken := VERSION.read_text()) != textual.__version__:
        pytest.skip(f"the pictures were taken with Textual {taken}, this is {textual.__version__}")
    kept = FOLDER / f"{name}.txt"
    if found == kept.read_text(encoding="utf-8"):
        return ""
    (tmp_path / f"{name}.txt").write_text(found, encoding="utf-8")
    lines = unified_diff(kept.read_text(encoding="utf-8").splitlines(), found.splitlines(), lineterm="", n=0)
    return f"the screen looks different; diff {kept} {tmp_path / name}.txt\n" + "\n".join(lines) + "\n"


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
            await settled(driver)
            wrong += difference(picture(driver.app), named(scene, size, theme), tmp_path)
    assert not wrong, wrong


async def settled(driver: Driver) -> None:
    """Until nothing moves any more."""
    before = ""
    while before != (before := picture(driver.app)):
        await asyncio.sleep(0.2)
        await driver.pilot.pause()


def test_every_picture_is_of_a_scene() -> None:
    taken = {named(scene, *one) for scene in SCENES for one in pictures_of(scene)}
    assert {path.stem for path in FOLDER.glob("*.txt")} == taken
