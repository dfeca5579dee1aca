"""A page under the sampling drawer or one of its screens; it remembers what is posted."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList, Static

from chatapp.generation import Options
from chatapp.generation.decoding.preview import Distribution
from chatapp.tui.sampling.drawer import SamplingDrawer
from chatapp.tui.sampling.fields import (
    FIELDS,
)
from chatapp.tui.sampling.preview import Look
from support.themed_app import ThemedApp
from support.typist import Typist, until

ROWS = {field.name: place for place, field in enumerate(FIELDS)}
DISTRIBUTION = Distribution(np.linspace(4, -4, 1000, dtype=np.float32) * 2, (), lambda token: f" t{token}")


class Around(Screen[None]):
    """The screen that a drawer is in; it remembers what its keys ask that for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def action_sampling(self) -> None:
        self.asked.append("sampling")

    def action_over(self, place: str) -> None:
        self.asked.append(place)


class Stage(ThemedApp):
    """The page that a drawer or a screen stands on; it remembers what is posted."""

    def __init__(self, drawer: SamplingDrawer | None = None) -> None:
        super().__init__()
        self.drawer = drawer
        self.posted: list[Any] = []
        self.around = Around()

    def get_default_screen(self) -> Screen[None]:
        return self.around

    def compose(self) -> ComposeResult:
        if self.drawer:
            yield self.drawer

    @on(SamplingDrawer.Changed)
    @on(SamplingDrawer.WhenFullChanged)
    def remember(self, message: Any) -> None:
        self.posted.append(message)


class Hand(Typist):
    """A drawer on its page, and the keys that are pressed there."""

    def __init__(self, app: Stage, drawer: SamplingDrawer, pilot: Pilot[None]) -> None:
        super().__init__(pilot)
        self.app, self.drawer = app, drawer

    def go(self, name: str) -> None:
        self.drawer.action_walk(ROWS[name] - self.drawer.place)

    @property
    def chosen(self) -> Mapping[str, Any]:
        """The options of the last message, which must be those that the drawer has."""
        changes = [message for message in self.app.posted if isinstance(message, SamplingDrawer.Changed)]
        assert changes[-1].options == self.drawer.chosen
        return changes[-1].options

    @property
    def lines(self) -> list[str]:
        return self.drawer.render().plain.split("\n")

    def row(self, name: str) -> str:
        return next(line for line in self.lines if line[1:].startswith(name))


@asynccontextmanager
async def drawn(
    chosen: Mapping[str, Any] | None = None,
    *,
    defaults: Options = Options(),  # noqa: B008  # frozen
    look: Look | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[Hand]:
    drawer = SamplingDrawer(defaults, chosen or {}, look=look)
    app = Stage(drawer)
    async with app.run_test(size=size) as pilot:
        drawer.focus()
        await pilot.pause()
        yield Hand(app, drawer, pilot)


class Picked(Typist):
    """A screen over the page, and what it ended with."""

    def __init__(self, app: Stage, pilot: Pilot[None], results: list[Any]) -> None:
        super().__init__(pilot)
        self.app, self.results = app, results

    async def ended(self) -> Any:
        await self.until(lambda: self.results, "the screen to end")
        return self.results[0]

    def text_of(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).render())

    @property
    def names(self) -> list[str]:
        listed = self.app.screen.query_one(OptionList)
        return [str(listed.get_option_at_index(place).prompt).strip() for place in range(listed.option_count)]

    async def highlight(self, name: str) -> None:
        place = next(place for place, shown in enumerate(self.names) if shown.split("  ")[0] == name)
        listed = self.app.screen.query_one(OptionList)
        listed.focus()
        listed.highlighted = place
        await self.pilot.pause()


@asynccontextmanager
async def opened(screen: Screen[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[Picked]:
    app, results = Stage(), list[Any]()
    async with app.run_test(size=size) as pilot:
        app.push_screen(screen, results.append)
        await until(lambda: app.screen is screen and screen.is_mounted)
        await pilot.pause()
        yield Picked(app, pilot, results)
