"""Pictures of every screen; SNAPSHOTS=update takes new ones, to be looked at."""

import asyncio
import os
from pathlib import Path

import pytest
import textual
from pictures import picture
from scenes import SCENES, remember
from screen_driver import Driver, running

FOLDER = Path(__file__).parent / "__snapshots__" / "test_tui"
VERSION = FOLDER / "textual-version"


def compare(found: str, name: str, tmp_path: Path) -> None:
    """Compare with the picture of this name."""
    if os.environ.get("SNAPSHOTS") == "update":
        FOLDER.mkdir(parents=True, exist_ok=True)
        VERSION.write_text(textual.__version__)
        (FOLDER / f"{name}.svg").write_text(found, encoding="utf-8")
    if not VERSION.exists():
        pytest.skip("no pictures have been taken yet")
    if (taken := VERSION.read_text()) != textual.__version__:
        pytest.skip(f"the pictures were taken with Textual {taken}, this is {textual.__version__}")
    if found != (FOLDER / f"{name}.svg").read_text(encoding="utf-8"):
        (tmp_path / f"{name}.svg").write_text(found, encoding="utf-8")
        pytest.fail(f"the screen looks different: compare {FOLDER / name}.svg and {tmp_path / name}.svg")


@pytest.mark.parametrize("theme", ["midnight", "paper"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=["80x24", "120x40", "200x60"])
@pytest.mark.parametrize("scene", SCENES)
async def test_the_screen_looks_as_in_its_picture(
    scene: str, size: tuple[int, int], theme: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.db"
    shown = SCENES[scene]
    if shown.stored:
        remember(path)
    async with running(shown.engine(), size=size, theme=theme, history=path if shown.stored else None) as driver:
        driver.app.animation_level = "none"
        await shown.play(driver)
        await driver.pilot.pause()
        await settled(driver)
        compare(picture(driver.app), f"{scene}-{size[0]}x{size[1]}-{theme}", tmp_path)


async def settled(driver: Driver) -> None:
    """Until nothing moves any more."""
    before = ""
    while before != (before := picture(driver.app)):
        await asyncio.sleep(0.3)
        await driver.pilot.pause()
