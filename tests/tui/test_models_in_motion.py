"""The models screen while things change under it: slow stores, searches, questions that come late, little room."""

import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from chatapp.models.catalogue import ListedModel, Machine
from chatapp.models.facts import Details
from chatapp.models.jobs import Jobs
from chatapp.tui.models import screen as models_screen
from chatapp.tui.models.asking import Asking, ask, pull_question
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.models.sections import Catalogue
from model_store import ModelNotFound
from support.screen_driver import beginning, started
from support.scripted_engine import ScriptedEngine
from support.themed_app import ThemedApp
from support.typist import until

THIS = Machine(16 * 10**9, 200 * 10**9, 20.0 * 10**9, backends=1, versions={})
PLAN = {
    "event": "plan", "model": "two", "repository": "org/two", "commit": "0" * 40, "licence": "mit",
    "files": [{"name": f"model-{n}-of-3.safetensors", "size": 5 * 10**9} for n in range(3)],
    "size": 15 * 10**9, "there": 0, "family": "llama", "parameters": 10**9, "export": None, "precision": "int8",
    "precision_reason": "as you asked", "disk_needed": 1, "disk_free": 2, "memory_needed": 1, "memory": 2,
    "tokens_per_second": 30.0, "problems": [],
}  # fmt: skip
PROCESS = f"""
import json, pathlib, sys, time
kind, text = sys.argv[1], sys.argv[-1]
while text != "one" and kind != "pull" or "--dry-run" in sys.argv:
    if (pathlib.Path(sys.argv[0]).parent / "go").exists():
        break
    time.sleep(0.01)
if kind == "search":
    found = [dict(id=f"org/{{text}}{{n}}", licence="mit", gated=False, family="llama", downloads=n) for n in range(5)]
    unreached = "cannot search the Hub, showing the catalogue only: no network" if text == "lost" else None
    print(json.dumps(dict(hub=[] if unreached else found, unreached=unreached)))
elif "--dry-run" in sys.argv:
    print({json.dumps(json.dumps(PLAN))})
else:
    time.sleep(60)
"""


class Models(ThemedApp):
    """The models screen over rows that a function gives, and processes that do as told."""

    def __init__(self, rows: Callable[[], Sequence[ListedModel]], tmp_path: Path) -> None:
        super().__init__()
        script = tmp_path / "process.py"
        script.write_text(PROCESS)
        self.jobs = Jobs(lambda job: self.call_later(self.models.show_job, job), command=(sys.executable, str(script)))
        found = Catalogue(lambda: THIS, rows, lambda row: Details(()), lambda row: 0)
        self.models = ModelsScreen(found, self.jobs, current="builtin")

    def on_mount(self) -> None:
        self.push_screen(self.models)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        await until(condition, what)

    @property
    def picture(self) -> str:
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


@asynccontextmanager
async def running(
    rows: Callable[[], Sequence[ListedModel]], tmp_path: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Models, Pilot[None]]]:
    app = Models(rows, tmp_path)
    async with app.run_test(size=size, notifications=True) as pilot:
        await app.until(lambda: app.models.rows, "the models to be listed")
        await pilot.pause()
        yield app, pilot
    app.jobs.close()


def some(count: int) -> list[ListedModel]:
    return [
        ListedModel("builtin", "here", "base", "builtin"),
        *(ListedModel(f"m{number}", "absent", "chat", f"m{number}") for number in range(count)),
    ]


async def test_a_store_slower_than_the_looks_at_it_is_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_screen, "EVERY", 0.02)
    reading, most, times = 0, 0, 0
    lock = threading.Lock()

    def rows() -> Sequence[ListedModel]:
        nonlocal reading, most, times
        with lock:
            reading, times = reading + 1, times + 1
            most = max(most, reading)
        time.sleep(0.15)
        with lock:
            reading -= 1
        return [ListedModel("one", "elsewhere", "chat", "one", share=times / 100, note="process 1 is pulling")]

    async with running(rows, tmp_path) as (app, _):
        await app.until(lambda: app.models.rows[0].share and app.models.rows[0].share >= 0.04, "the share to grow")
        assert most == 1


async def test_another_search_takes_the_place_of_what_was_found_but_not_of_what_is_pulled(tmp_path: Path) -> None:
    async with running(lambda: some(3), tmp_path) as (app, pilot):
        await pilot.press("s", *"one", "enter")
        await app.until(lambda: len(app.models.hub) == 5)
        app.jobs.add("pull", "org/one3")
        await app.until(lambda: (job := app.jobs.of("org--one3")) and job.state == "running")
        await pilot.press("s", *"two", "enter")
        assert [row.name for row in app.models.hub] == ["org--one3"]
        (tmp_path / "go").touch()
        await app.until(lambda: len(app.models.hub) == 6)
        await app.until(lambda: app.models.hub[0].name == "org--one3" and "On the Hub, 'two' · 6" in app.picture)


async def test_a_search_that_reaches_nobody_says_so_over_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    async with running(lambda: some(3), tmp_path) as (app, pilot):
        await pilot.press("s", *"lost", "enter")
        said = ["Searching the Hub for 'lost'.", "cannot search the Hub, showing the catalogue only: no network"]
        await app.until(lambda: [one.message for one in app._notifications] == said)
        assert not app.models.hub


async def test_a_pull_that_waits_has_a_line_when_the_screen_is_opened(tmp_path: Path) -> None:
    app = Models(lambda: some(1), tmp_path)
    app.jobs.on_change = lambda job: None
    app.jobs.add("pull", "org/first")
    app.jobs.add("pull", "org/second")
    async with app.run_test(size=(100, 24)):
        await app.until(lambda: "org--second" in app.picture and "queued: pull" in app.picture)
    app.jobs.close()


async def test_a_search_leaves_the_filter_as_it_is(tmp_path: Path) -> None:
    async with running(lambda: some(3), tmp_path) as (app, pilot):
        await pilot.press("slash", *"m1", "enter")
        for last in ("escape", "enter"):
            await pilot.press("s", *"two", last)
            await pilot.pause()
            assert app.models.wanted == "m1"
            assert " / m1" in app.picture and not app.models.entry.typing


async def test_a_question_waits_until_nothing_else_is_typed_or_asked(tmp_path: Path) -> None:
    async with running(lambda: some(3), tmp_path) as (app, pilot):
        await pilot.press("down", "p", "slash")
        (tmp_path / "go").touch()
        await app.until(lambda: app.models.plans, "the plan")
        await pilot.press("y")
        assert app.models.wanted == "y" and app.screen is app.models
        await pilot.press("escape")
        await app.until(lambda: isinstance(app.screen, Asking))
        app.models.plans.append(app.jobs.all()[0])
        await pilot.pause()
        await pilot.press("n")
        await app.until(lambda: not app.models.plans and isinstance(app.screen, Asking), "the next question")
        assert [job.kind for job in app.jobs.all()] == ["plan"]


async def test_the_selected_model_stays_in_view_when_others_come_before_it(tmp_path: Path) -> None:
    async with running(lambda: some(9), tmp_path, (80, 14)) as (app, pilot):
        await pilot.press("end", "s", *"one", "enter")
        await app.until(lambda: len(app.models.hub) == 5)
        await app.until(lambda: "m8" in app.picture, "the selected one to be in view")


async def test_the_columns_leave_room_for_the_scrollbar_from_the_first_look_on(tmp_path: Path) -> None:
    async with running(lambda: some(99), tmp_path) as (app, pilot):
        await app.until(lambda: app.models.listing.show_vertical_scrollbar)
        await pilot.pause()
        listing = app.models.listing
        assert listing.plan.width == listing.scrollable_content_region.width == 79


@pytest.mark.parametrize("size", [(80, 24), (80, 12), (40, 16)])
async def test_a_question_shows_its_answers_whatever_the_room(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(lambda: some(1), tmp_path, size) as (app, pilot):
        ask(app, pull_question({**PLAN, "problems": ["it is too large"] * 9}, size[0]), "pull", lambda: None)
        await app.until(lambda: isinstance(app.screen, Asking) and " n  no" in app.picture, "the keys")
        for _ in range(40):
            await pilot.press("down")
        await app.until(lambda: "too large." in app.picture, "the end of the question")


async def test_a_click_on_an_answer_to_a_question_gives_it(tmp_path: Path) -> None:
    async with running(lambda: some(1), tmp_path, (80, 24)) as (app, pilot):
        done: list[str] = []
        for button, expected in (("n", []), ("y", ["pulled"])):
            ask(app, pull_question(PLAN, 80), "pull", lambda: done.append("pulled"))
            await app.until(lambda: isinstance(app.screen, Asking) and " n  no" in app.picture, "the keys")
            rows = app.picture.splitlines()
            row = next(place for place, line in enumerate(rows) if " n  no" in line)
            await pilot.click(offset=(rows[row].index(f" {button} ") + 1, row))
            await app.until(lambda: not isinstance(app.screen, Asking), "the end of the question")
            assert done == expected


async def test_a_store_that_cannot_be_read_is_told_for_as_long_as_that_is_so(tmp_path: Path) -> None:
    def rows() -> Sequence[ListedModel]:
        raise PermissionError(13, "Permission denied", "models")

    app = Models(rows, tmp_path)
    async with app.run_test(size=(80, 24)):
        await app.until(lambda: "models  permission denied: models" in app.picture)


async def test_a_model_that_is_removed_while_its_page_is_read_is_no_error(tmp_path: Path) -> None:
    read = threading.Event()

    def details(row: ListedModel) -> Details:
        read.set()
        raise ModelNotFound(f"{row.name} was removed meanwhile")

    async with running(lambda: some(1), tmp_path) as (app, pilot):
        app.models.catalogue = replace(app.models.catalogue, details=details)
        await pilot.press("down")
        await app.until(read.is_set, "the page to be read")
        await pilot.pause(0.1)
        assert not app._notifications


async def test_the_model_in_use_is_known_by_its_name_however_it_was_asked_for(tmp_path: Path) -> None:
    start = beginning(ScriptedEngine("Because.", can_chat=True), "./some/folder", home=tmp_path)
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened)
        driver.screen.models.open()
        await driver.until(lambda: isinstance(driver.app.screen, ModelsScreen))
        assert isinstance(driver.app.screen, ModelsScreen) and driver.pane.opened
        assert driver.app.screen.current == driver.pane.opened.name != "./some/folder"
