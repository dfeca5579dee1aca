"""The models screen over nothing, its keyboard, and what it shows."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual import events
from textual.pilot import Pilot

from chatapp.models import catalogue, facts
from chatapp.models.catalogue import ListedModel, Machine
from chatapp.models.jobs import Jobs
from chatapp.tui.keys.keyboard import Keyboard
from chatapp.tui.models.asking import Asking
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.models.sections import Catalogue
from model_store import Store
from support.themed_app import ThemedApp
from support.typist import Typist

GB = 1_000_000_000
THIS = Machine(16 * GB, 200 * GB, 20.0 * GB, backends=1, versions={})
NOTHING = "not asked yet"


class ModelsApp(ThemedApp):
    """The models screen over nothing, with what the real app does for it."""

    def __init__(self, home: Path, *, current: str, offline: str = "") -> None:
        super().__init__()
        store = Store(home / "models")
        self.jobs = Jobs(lambda job: self.call_later(self.models.show_job, job), path=home / "queue.json")
        found = Catalogue(
            machine=lambda: THIS,
            rows=lambda: catalogue.list_models(store, THIS),
            details=lambda row: facts.read_details(store, row, THIS),
            freed=lambda row: facts.count_freed(store, row),
        )
        self.models = ModelsScreen(found, self.jobs, current=current, offline=offline)
        self.chosen: str | None = NOTHING
        self.keyboard = Keyboard(self)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded and not self.keyboard.passes(event):
            return
        await super().on_event(event)

    def on_mount(self) -> None:
        self.push_screen(self.models, self.choose)

    def choose(self, name: str | None) -> None:
        self.chosen = name


class Driver(Typist):
    """A running models screen: its keyboard, what it shows, and patience."""

    def __init__(self, app: ModelsApp, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.models = app, app.models

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        try:
            await super().until(condition, what)
        except AssertionError as error:
            error.add_note(f"{self.lines}\n{self.page}")
            raise

    async def find(self, name: str) -> None:
        """Select a model by the filter."""
        await self.press("slash", *name, "enter")
        await self.until(lambda: self.models.row and self.models.row.name == name)
        await self.press("escape")
        await self.until(lambda: not self.models.wanted)

    async def asked(self) -> str:
        """What is asked now."""
        await self.until(lambda: isinstance(self.app.screen, Asking), "a question")
        question = self.app.screen
        assert isinstance(question, Asking)
        await self.until(lambda: question.is_running)
        return question.question.plain

    @property
    def lines(self) -> list[str]:
        listing = self.models.listing
        return [
            "".join(segment.text for segment in listing.render_line(y)).rstrip() for y in range(listing.size.height)
        ]

    def shown(self, name: str) -> str:
        """What is said of a model in the list."""
        return next((text for text in self.lines if name in text), "")

    @property
    def page(self) -> str:
        return str(self.models.detail.page.content)

    @property
    def keys(self) -> set[str]:
        return {found.binding.action for found in self.models.active_bindings.values()}


@asynccontextmanager
async def running(
    home: Path, *, current: str = "builtin", offline: str = "", size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Driver]:
    app = ModelsApp(home, current=current, offline=offline)
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.until(lambda: driver.models.rows, "the models to be listed")
        await pilot.pause()
        yield driver
    app.jobs.close()


def rows(count: int) -> list[ListedModel]:
    return [ListedModel(f"model-{place}", "here", "base", "x", parameters=place + 1) for place in range(count)]
