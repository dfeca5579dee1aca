"""Models and jobs in lines: the list, and the two lines of the chat screen."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.screen import Screen

from chatapp.models.catalogue import ListedModel
from chatapp.models.jobs import Job
from chatapp.models.suggestion import Offer
from chatapp.tui.models.columns import COLUMNS, choose_columns, draw_line
from chatapp.tui.models.lines import JobLine, OfferLine
from chatapp.tui.models.listing import ModelList
from model_store import Store
from support.checkpoints import MakeCheckpoint
from support.models_page import rows, running
from support.themed_app import ThemedApp

# The list


async def test_a_thousand_models_are_walked_through_and_drawn_a_screen_at_a_time(home: Path) -> None:
    async with running(home) as driver:
        listing = driver.models.listing
        listing.show([("One", rows(600)), ("Two", rows(1000)[600:])])
        await driver.press("end")
        assert listing.selected and listing.selected.name == "model-999"
        assert "model-999" in driver.lines[-1]
        await driver.press("home", "tab")
        assert listing.selected.name == "model-600"
        await driver.press("up", "pageup")
        assert listing.selected.name == "model-" + str(599 - (listing.size.height - 3))
        await driver.press("home")
        assert driver.lines[1] == " One"
        begun = time.process_time()
        for _ in range(100):
            listing.render_line(5)
        assert time.process_time() - begun < 1.0


async def test_a_click_selects_and_a_double_click_uses(home: Path, checkpoint: MakeCheckpoint) -> None:
    name = Store(home / "models").get(str(checkpoint())).name
    async with running(home) as driver:
        await driver.pilot.click(ModelList, offset=(5, 3))
        assert driver.models.row and driver.models.row.name == name
        await driver.pilot.click(ModelList, offset=(5, 1))
        assert driver.models.row.name == name
        await driver.pilot.click(ModelList, offset=(5, 2), times=2)
        await driver.until(lambda: driver.app.chosen == "builtin")


@pytest.mark.parametrize(("width", "columns"), [(40, 0), (77, 4), (79, 4), (110, 5), (200, 8)])
def test_a_narrow_list_leaves_the_less_wanted_columns_out(width: int, columns: int) -> None:
    found = choose_columns(width, ["smollm2-135m-instruct"])
    assert found.columns == COLUMNS[:columns]
    assert draw_line(rows(1)[0], None, found, current=False).cell_length <= width


def test_the_speed_of_the_smallest_models_has_room_in_its_column() -> None:
    layout = choose_columns(200)
    for speed, text in (6.14, "~6.1"), (372, "~372"), (9999.4, "~9999"), (9999.6, "~10k"), (270_123, "~270k"):
        row = ListedModel("tiny", "here", "chat", "", tokens_per_second=speed)
        assert f" {text} " in draw_line(row, None, layout, current=False).plain


def test_what_publishers_write_cannot_drive_the_terminal() -> None:
    row = ListedModel("a\x1b[2Jb", "absent", "hub", "x", licence="\x1b]0;owned\x07", good_for="one\ntwo\u202e[b]")
    text = draw_line(row, None, choose_columns(200), current=False).plain
    assert not any(character in text for character in "\x1b\x07\u202e\n") and "[b]" in text


def job(kind: str = "pull", **fields: object) -> Job:
    made = Job(1, "pull", "org/tiny", state="running", phase="fetching", size=100)
    return replace(made, **{"kind": kind, **fields})  # type: ignore[arg-type]  # fields of Job


@pytest.mark.parametrize(
    ("job", "width", "text"),
    [
        (job(share=0.647, rate=12e6, seconds_left=18.2), 40, "━━━━━━━━━━━━ 64 % 12 MB/s 18 s"),
        (job(share=0.647, rate=12e6, seconds_left=18.2), 20, "↓ 64 % 12 MB/s 18 s"),
        (job(share=0.999, note="the network is down"), 60, "━━━━━━━━━━━━ 99 % 0 B/s the network is down"),
        (job(phase="lowering", share=0.5), 40, "lowering 50 %"),
        (job("verify", phase="verifying"), 40, "verifying"),
        (job("bench", state="queued"), 40, "queued: bench"),
        (job(state="failed", result="no\nroom"), 40, "✗ no room"),
    ],
)
def test_a_line_tells_how_far_a_job_is(job: Job, width: int, text: str) -> None:
    plan = replace(choose_columns(80), columns=(), saying=width)
    assert draw_line(rows(1)[0], job, plan, current=False).plain.partition("model-0")[2].strip() == text


# Lines of the chat screen


class LinesApp(ThemedApp):
    """The two lines, and what they post."""

    def __init__(self) -> None:
        super().__init__()
        self.offer_line, self.job_line = OfferLine(), JobLine()
        self.heard: list[object] = []

    def compose(self) -> Iterator[OfferLine | JobLine]:
        yield self.offer_line
        yield self.job_line

    def get_default_screen(self) -> Screen[None]:
        return Offering()


class Offering(Screen[None]):
    """A screen that has the keys of the offer."""

    app: LinesApp

    def action_accept(self) -> None:
        self.app.heard.append("accepted")

    def action_hide(self) -> None:
        self.app.heard.append("hidden")


async def test_a_click_on_a_key_of_an_offer_presses_it() -> None:
    offered = Offer("chat", ("a",), "Want to chat?", "downloads a (1 GB)")
    app = LinesApp()
    async with app.run_test(size=(120, 24)) as pilot:
        assert not app.offer_line.display
        app.offer_line.offer = offered
        await pilot.pause()
        shown = app.offer_line.render()
        assert shown.plain == "Want to chat? F8 downloads a (1 GB). F9 dismisses."
        assert app.offer_line.display
        await pilot.click(OfferLine, offset=(2 + len("Want to chat? "), 0))
        await pilot.click(OfferLine, offset=(2 + len("Want to chat? F8 downloads a (1 GB). "), 0))
        await pilot.pause()
        assert app.heard == ["accepted", "hidden"]
        app.offer_line.offer = None
        await pilot.pause()
        assert not app.offer_line.display


async def test_the_line_of_jobs_tells_of_the_pull_that_runs() -> None:
    app = LinesApp()
    async with app.run_test() as pilot:
        app.job_line.show([job("verify", phase="verifying"), job(share=0.64, rate=12e6, seconds_left=18.0)])
        await pilot.pause()
        assert plain(app.job_line.render()) == "↓ org--tiny 64 % 12 MB/s 18 s"
        app.job_line.show([job("plan"), job("verify", phase="verifying")])
        assert plain(app.job_line.render()) == "● org--tiny verifying"
        app.job_line.show([job(state="done")])
        await pilot.pause()
        assert not app.job_line.display


def plain(content: Content) -> str:
    return content.plain.rstrip()
