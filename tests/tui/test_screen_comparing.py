"""Comparisons of models: they answer one after the other, and the form that begins them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.tui.answers.columns import Columns
from chatapp.tui.answers.comparison import ComparisonScreen, Progress, Warn
from chatapp.tui.engines import Choice
from chatapp.workspace import Opened, Workspace
from support.answers_page import Page, shown
from support.checkpoints import HERE
from support.scripted_engine import FIBONACCI, Placement, ScriptedEngine
from support.typist import until


@dataclass
class Shelf:
    """Opens scripted engines by name and keeps them."""

    engines: dict[str, ScriptedEngine]
    opened: list[str] = field(default_factory=list)
    warning: str = ""

    def open(self, choice: Choice, on_progress: Progress, warn: Warn) -> Opened:
        name = str(choice)
        self.opened.append(name)
        on_progress("lowering", 0.5)
        if self.warning:
            warn(self.warning)
        if name not in self.engines:
            raise RuntimeError(f"{name} is not here")
        return Opened(self.engines[name], choice.model, 1, 0.1)


class Desk(Page):
    """An app that opens a comparison."""

    def __init__(self, screen: ComparisonScreen) -> None:
        super().__init__(Columns(2))
        self.comparison = screen
        self.results: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.comparison, self.results.append)

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self._notifications]


@asynccontextmanager
async def comparing(
    shelf: Shelf, *chosen: Choice, prompt: str = "def f():", size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Desk, Pilot[None], ComparisonScreen]]:
    screen = ComparisonScreen(["builtin", "other"], ["onnx", "openvino"], shelf.open, prompt=prompt, chosen=chosen)
    app = Desk(screen)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(lambda: app.screen is screen and screen.is_mounted, "the screen")
        await pilot.pause()
        yield app, pilot, screen
        for engine in shelf.engines.values():
            engine.go.set()


def column_text(screen: ComparisonScreen, index: int) -> str:
    assert screen.columns
    return "".join(screen.columns.columns[index].wrapped.parts)


BOTH = (Choice("builtin", "onnx"), Choice("builtin", "openvino"))


def both(**options: Any) -> Shelf:  # Any: fields of ScriptedEngine
    placements = {"onnx": Placement(), "openvino": Placement("openvino")}
    engines = {f"builtin on {name}": ScriptedEngine(placement=at, **options) for name, at in placements.items()}
    return Shelf(engines)


async def test_the_same_prompt_goes_to_both_one_after_the_other() -> None:
    shelf = both()
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering, "the comparison to end")
        await pilot.pause()
        assert shelf.opened == ["builtin on onnx", "builtin on openvino"]
        assert [column_text(screen, index) for index in (0, 1)] == [FIBONACCI, FIBONACCI]
        assert screen.columns
        lines = shown(screen.columns.columns[0])
        assert re.fullmatch(r" 1 ★ −1.38 builtin on onnx +● done", lines[0])
        assert lines[-3:] == [" 103 tokens  67.6 tok/s", " first 12.5 ms p95 31.1 ms", " onnx · cpu · int8"]
        assert shown(screen.table)[0].split()[:4] == ["first", "token", "tok/s", "p95"]
        assert shown(screen.verdict) == [
            "builtin on onnx and builtin on openvino write equally fast, within 3 %.",
            "The texts of both are equal: 103 tokens.",
        ]


async def test_the_answer_that_is_kept_is_the_result() -> None:
    shelf = both()
    shelf.engines["builtin on openvino"].text = "    return [31;1m\x1b"
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        await pilot.press("2", "enter")
        await until(lambda: app.results)
        assert app.results == ["    return [31;1m\x1b"]


async def test_escape_stops_the_models_then_shows_the_form_then_leaves() -> None:
    shelf = both(pause_after=5)
    first = shelf.engines["builtin on onnx"]
    first.go.set()  # for the warm-up
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        first.delay = 0.05
        await pilot.press("f5")
        await until(lambda: screen.columns and screen.columns.columns[0].reply.text, "some text")
        app.post_message(events.Key("escape", None))
        await until(lambda: not screen.answering, "the stop")
        assert screen.columns
        assert [column.state for column in screen.columns.columns] == ["■ stopped", "■ stopped"]
        await until(lambda: screen.running and not screen.running.is_alive(), "the thread to end")
        assert not first.busy
        assert shelf.opened == ["builtin on onnx"]
        assert not screen.table.display
        await pilot.press("escape")
        await until(lambda: screen.columns is None)
        await pilot.press("escape")
        await until(lambda: app.results)
        assert app.results == [None]


async def test_one_that_cannot_be_opened_says_why_and_the_other_answers() -> None:
    shelf = both()
    async with comparing(shelf, Choice("other"), BOTH[0]) as (_, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        assert screen.columns
        first, second = screen.columns.columns
        assert (first.state, second.state) == ("✗ failed", "● done")
        assert column_text(screen, 0) == "RuntimeError: other is not here"
        await pilot.press("enter")
        assert screen.is_current  # there is nothing to keep


async def test_a_fallback_to_another_backend_is_told() -> None:
    shelf = both()
    shelf.warning = "onnx failed on cpu: [oops]"
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        assert "onnx failed on cpu: [oops]." in app.toasts


async def test_the_form_asks_for_a_prompt_and_for_two_models() -> None:
    shelf = both()
    async with comparing(shelf, prompt="") as (app, pilot, screen):
        assert screen.asked.has_focus
        await pilot.press("f5")
        await pilot.press("h", "i", "enter")
        assert screen.picker.has_focus
        await pilot.press("enter")
        assert app.toasts == ["Write a prompt first.", "Choose two or more with space."]
        assert shelf.opened == []


async def test_models_are_found_by_typing_and_chosen_with_space() -> None:
    shelf = both(text="a b")
    async with comparing(shelf) as (_, pilot, screen):
        await pilot.press(*"builtinon", "space", "down", "space")
        assert screen.picker.chosen == ["builtin on onnx", "builtin on openvino"]
        assert shown(screen.picker)[:4] == [
            " 2 of at most 4 chosen   only names with “builtinon”",
            " 1 builtin on onnx",
            " 2 builtin on openvino",
            "",
        ]
        await pilot.press("space", *["backspace"] * 9, "down", "down", "down", "space")
        assert screen.picker.chosen == ["builtin on onnx", "other"]


async def test_at_most_four_are_compared() -> None:
    async with comparing(both()) as (app, pilot, screen):
        await pilot.press(*["space", "down"] * 5)
        assert len(screen.picker.chosen) == 4
        assert app.toasts == ["At most 4 side by side; space removes one."]


async def test_tokens_and_order_are_the_users_choice() -> None:
    shelf = both()
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        await pilot.press("tab", "left", "tab", "right", "f5")
        await until(lambda: screen.results and not screen.answering)
        assert [engine.options[-1].max_tokens for engine in shelf.engines.values()] == [64, 64]
        assert screen.columns
        assert "at most 64 tokens, in turn" in shown(screen.columns.bar)[0]
        assert [column.state for column in screen.columns.columns] == ["■ length", "■ length"]


async def test_the_same_can_be_compared_again() -> None:
    shelf = both(text="a b c")
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        for _round in range(2):
            await pilot.press("f5")
            await until(lambda: screen.results and not screen.answering)
        assert shelf.opened == ["builtin on onnx", "builtin on openvino"] * 2
        assert [column_text(screen, index) for index in (0, 1)] == ["a b c", "a b c"]


async def test_leaving_the_screen_frees_the_engine() -> None:
    shelf = both(delay=0.01)
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        app.post_message(events.Key("f5", None))
        await until(lambda: screen.columns and screen.columns.columns[0].reply.text)
        app.post_message(events.Key("enter", None))
        await until(lambda: app.results)
        assert app.results[0] is not None
        assert FIBONACCI.startswith(app.results[0])
        await until(lambda: screen.running and not screen.running.is_alive(), "the thread to end")
        assert not any(engine.busy for engine in shelf.engines.values())


@pytest.mark.skipif("openvino" not in HERE, reason="OpenVINO is not for this machine")
async def test_the_builtin_model_is_compared_on_two_backends() -> None:
    def open_real(choice: Choice, on_progress: Progress, warn: Warn) -> Opened:
        placement = PlacementOptions(choice.backend or "onnx")
        store = Workspace().open_store()
        engine = open_engine(store, choice.model, placement, on_progress=on_progress, on_fallback=warn)
        return Opened(engine, choice.model, 1, engine.load_seconds)

    screen = ComparisonScreen(["builtin"], ["onnx", "openvino"], open_real, prompt="def fibonacci(n):", chosen=BOTH)
    app = Desk(screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.screen is screen and screen.is_mounted)
        await pilot.pause()
        app.post_message(events.Key("f5", None))
        await until(lambda: len(screen.results) == 2 and not screen.answering, "two results")
        await pilot.pause()
        assert screen.columns
        feet = [shown(column)[-1] for column in screen.columns.columns]
        assert [foot.split(" · ")[0] for foot in feet] == [" onnx", " openvino"]
        assert [result.text for result in screen.results] == [column.reply.text for column in screen.columns.columns]
        assert all(result.usage.completion_tokens for result in screen.results)
        report = "\n".join(shown(screen.verdict))
        assert re.search("write(s .* times as| equally) fast", report)
        assert re.search("The texts (of both are equal|differ)", report)
