"""What the prompt offers while somebody types: commands and files, also where there are many, or little room."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from textual import events, on
from textual.app import App, ComposeResult
from textual.containers import Vertical

from chatapp.commands.actions import listed
from chatapp.conversation import attachments
from chatapp.conversation.attachments import Candidate, Scan
from chatapp.tui.prompt import Prompt, completion
from chatapp.tui.prompt.popup import Choice
from support.patience import PATIENCE
from support.typist import until


class Page(App[None]):
    """A prompt at the foot of a page."""

    CSS = "Vertical { height: 1fr; }"

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self.prompt = prompt
        self.commands: list[str] = []

    def compose(self) -> ComposeResult:
        yield Vertical()
        yield self.prompt

    def on_mount(self) -> None:
        self.prompt.focus()

    @on(Prompt.CommandEntered)
    def note(self, message: Prompt.CommandEntered) -> None:
        self.commands.append(message.line)

    @property
    def picture(self) -> str:
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())

    async def type(self, text: str) -> None:
        for character in text:
            self.prompt.post_message(events.Key("enter" if character == "\n" else character, character))
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        await until(condition, what)


@asynccontextmanager
async def page(prompt: Prompt, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Page]:
    app = Page(prompt)
    async with app.run_test(size=size):
        yield app


@pytest.mark.parametrize("line", ["/search word", "/save title", "/load model", "/import file"])
async def test_what_follows_a_command_is_never_taken_for_its_name(line: str) -> None:
    async with page(Prompt(commands=listed())) as app:
        await app.type(f"{line}\n")
        await app.until(lambda: app.commands == [line])


async def test_the_note_stands_above_the_prompt_in_each_frame() -> None:
    async with page(Prompt()) as app:
        popup, layouts = app.prompt.popup, list[tuple[int, int]]()
        app.screen.screen_layout_refresh_signal.subscribe(
            app, lambda _: layouts.append((popup.region.bottom, app.prompt.region.y)), immediate=True
        )
        popup.show_note("a note")
        await app.until(lambda: "a note" in app.picture)
        layouts.clear()
        app.prompt.insert("\n\n")
        await app.until(lambda: app.prompt.size.height == 3 and layouts)
        assert all(bottom == top for bottom, top in layouts)


@pytest.mark.parametrize("size", [(80, 24), (80, 7)])
async def test_every_command_can_be_reached_whatever_the_room(size: tuple[int, int]) -> None:
    async with page(Prompt(commands=listed()), size) as app:
        await app.type("/")
        await app.until(lambda: app.prompt.popup.display)
        for name, _ in listed():
            assert app.prompt.popup.current and app.prompt.popup.current.name == name
            await app.until(lambda name=name: f" {name}" in app.picture, name)  # type: ignore[misc]
            app.prompt.highlight(1)
        await app.until(lambda: " /set parameter" in app.picture, "the first one again")


async def test_what_was_highlighted_stays_so_when_files_have_been_looked_for_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x")
    go = Event()
    looks: list[Path] = []
    scan = attachments.scan

    def slow(root: Path) -> Scan:
        looks.append(root)
        if len(looks) > 1:
            (tmp_path / "0.txt").write_text("x")
            go.wait(PATIENCE)
        return scan(root)

    monkeypatch.setattr(attachments, "scan", slow)
    async with page(Prompt(root=tmp_path)) as app:
        await app.type("@")
        await app.until(lambda: len(app.prompt.popup.choices) == 2)
        await app.type("a.txt @")
        await app.until(lambda: len(looks) == 2 and len(app.prompt.popup.choices) == 2)
        app.prompt.highlight(1)
        go.set()
        await app.until(lambda: len(app.prompt.popup.choices) == 3)
        assert app.prompt.popup.current and app.prompt.popup.current.name == "b.txt"


async def test_tokens_are_counted_one_text_at_a_time_and_the_last_one_always(tmp_path: Path) -> None:
    go, most = Event(), 0
    counting: list[str] = []
    counted: list[str] = []

    def slow(text: str) -> int:
        nonlocal most
        counting.append(text)
        most = max(most, len(counting))
        go.wait(PATIENCE)
        counting.remove(text)
        counted.append(text)
        return len(text)

    async with page(Prompt(count_tokens=slow, root=tmp_path)) as app:
        app.prompt.draft = "one"
        await app.until(lambda: counting == ["one"])
        for text in ("two", "three", "four"):
            app.prompt.draft = text
            await asyncio.sleep(0.2)  # longer than the pause after which tokens are counted
        go.set()
        await app.until(lambda: counted and counted[-1] == "four")
        assert most == 1 and counted == ["one", "four"]


async def test_a_key_ranks_the_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x")
    asked: list[str] = []
    paths = completion.offer_paths

    def noting(query: str, there: Sequence[Candidate]) -> list[Choice]:
        asked.append(query)
        return paths(query, there)

    monkeypatch.setattr(completion, "offer_paths", noting)
    async with page(Prompt(root=tmp_path)) as app:
        await app.type("@")
        await app.until(lambda: app.prompt.popup.choices)
        await app.type("a")
        await app.until(lambda: app.prompt.text == "@a")
        await app.type(".")
        await app.until(lambda: app.prompt.text == "@a.")
        assert [query for query in asked if query] == ["a", "a."]
