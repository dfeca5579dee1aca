"""The whole screen: models, conversations, names, files and errors of anyone show as text and drive nothing."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual import events
from textual.widgets import Input, OptionList

from chatapp.commands.commands import PRESETS
from chatapp.conversation import Setup
from chatapp.models import catalogue
from chatapp.models.jobs import Job
from chatapp.text.printable import FLOOD, printable
from chatapp.tui.answers.comparison import ComparisonScreen
from chatapp.tui.chat.message import Answer, Said
from chatapp.tui.chat.search import SearchScreen
from chatapp.tui.engines import Choice
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.insight.latencies import LatencyScreen
from chatapp.tui.models.asking import Asking, pull_question
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.widgets.guard import guard_text
from chatapp.tui.widgets.windows import AskLine
from chatapp.workspace import Opened
from model_store.hub.catalog import name_of
from support import hostile
from support.hostile import ANSWERS, NAME, check, keep
from support.screen_driver import Driver, beginning, running, started
from support.scripted_engine import Open, Placement, ScriptedEngine, opener

Visit = Callable[[Driver], Awaitable[object]]
HEAVY = ("1 MB without a line end", "30,000 lines", "huge table", "joined flood", "nested quotes")
MARKUP = "[@click=app.quit]evil[/]"


def engine(text: str = "Yes.") -> ScriptedEngine:
    return ScriptedEngine(text, can_chat=True, context_length=1_000_000, placement=Placement(device=NAME))


def opens(on: ScriptedEngine) -> Open:
    """Tells and calls everything as somebody hostile would."""

    def open_model(on_progress: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
        on_progress(NAME, 0.5)
        warn(NAME)
        return Opened(on, NAME, 25_300_000, 0.31)

    return open_model


@asynccontextmanager
async def haunted(home: Path, *said: str) -> AsyncIterator[Driver]:
    """The app with such a conversation, model, and files."""
    home.mkdir()
    keep(home / "history.db", *(said or (NAME, NAME)))
    (home / "prompts").mkdir()
    (home / "prompts" / "evil.md").write_text(NAME, encoding="utf-8")
    (home / "presets.toml").write_text(f'["{MARKUP} \\u001b]0;x\\u0007"]\ntemperature = 1\n')
    (home / "keys.toml").write_text('"\\u001b[2Jevil" = "f12"\n')
    async with started(beginning(opens(engine(NAME)), NAME, home=home), size=(100, 30)) as driver:
        await driver.until(lambda: driver.pane.opened and driver.said, "the conversation")
        await driver.pilot.pause()
        yield driver
        while len(driver.app.screen_stack) > 1:
            driver.app.pop_screen()
        driver.pane.box.focus()
        driver.pane.prompt.draft = ""
        await driver.type("y")
        await driver.until(lambda: driver.pane.prompt.text == "y", "a key to be seen")


def look(driver: Driver) -> str:
    """What is on the screen, harmless; nothing before it is arranged."""
    return check(driver.app) if driver.picture else ""


async def shows(driver: Driver, *texts: str) -> None:
    """Wait until these texts are on the screen, which is harmless all the while."""
    await driver.until(lambda: all(text in look(driver) for text in texts), f"{texts}")


# Messages


@pytest.mark.parametrize("text", ANSWERS)
async def test_messages_are_harmless_while_they_grow_and_after_and_when_edited(text: str, tmp_path: Path) -> None:
    on, path = engine(ANSWERS[text]), tmp_path / "history.db"
    async with running(on, history=path, size=(60, 40)) as driver:
        driver.pane.prompt.draft = f"{ANSWERS[text]}\nseen"
        await shows(driver, "seen")
        driver.pane.prompt.action_submit()
        await driver.until(lambda: look(driver) and driver.figures.tokens and not driver.writing)
        driver.pane.outbox.edit(next(one for one in driver.pane.dialogue.branch() if one.role == "user"))  # type: ignore[union-attr]
        await shows(driver, "Editing")
    async with running(on, history=path, size=(60, 40)) as driver:
        await driver.until(lambda: len(driver.said) == 2)
        assert driver.pane.query_one(Answer).settled
        for view in driver.pane.query(Said):
            driver.pane.chat_page.focus_on(view.said.id)
            await driver.pilot.pause()
            assert look(driver)


@pytest.mark.parametrize("text", HEAVY)
async def test_large_messages_of_both_are_shown_soon_and_end(text: str, tmp_path: Path) -> None:
    async with haunted(tmp_path / "home", hostile.ALL[text], hostile.ALL[text]) as driver:
        driver.app.notify(hostile.ALL[text], markup=False)
        driver.pane.prompt.draft = hostile.ALL[text]
        await driver.pilot.pause()
        transcript = driver.pane.chat_page
        for y in (0, transcript.max_scroll_y // 2, transcript.max_scroll_y):
            transcript.scroll_to(y=y, animate=False, immediate=True)
            await driver.pilot.pause()
            look(driver)
        assert max(transcript.virtual_size.height, 1) < 6_000


@pytest.mark.parametrize(("columns", "width"), [(12, 40), (26, 80), (50, 80)])
async def test_tables_of_many_columns_stay_on_the_screen(columns: int, width: int) -> None:
    row = "|" + "cell|" * columns + "\n"
    async with running(engine(f"{row}|{'-|' * columns}\n{row}"), size=(width, 24)) as driver:
        await driver.type("a table\n")
        await driver.answered()
        await shows(driver, "│ ce", "└──")


# Everything else that has a name


async def sidebar(driver: Driver) -> None:
    await driver.press("ctrl+b")
    await shows(driver, "Today", "evil␛]0;")
    await driver.press("r")
    await driver.until(lambda: driver.app.screen.query(Input))
    await shows(driver, "New title")
    await driver.press("escape", "d")
    await shows(driver, "is deleted")
    await driver.press("u")
    await shows(driver, "is back")


async def search(driver: Driver) -> None:
    await driver.press("f3")
    await driver.until(lambda: isinstance(driver.app.screen, SearchScreen))
    await driver.type("evil")
    await driver.until(lambda: driver.app.screen.query_one(OptionList).option_count)
    await shows(driver, " matches ", "evil␛]0;")
    driver.app.screen.query_one(Input).post_message(events.Paste(NAME))
    await shows(driver, "nothing found")


async def insights(driver: Driver) -> None:
    await driver.type("go on\n")
    await driver.answered()
    await driver.press("ctrl+t")
    await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))
    await shows(driver, "perplexity", "evil")
    for key in ("right", "right", "right", "enter", "down"):
        await driver.press(key)
        assert "␛" in look(driver)
    await driver.press("escape", "escape", "ctrl+l")
    await driver.until(lambda: isinstance(driver.app.screen, LatencyScreen))
    await driver.press("c")
    await driver.until(lambda: isinstance(driver.app.screen, AskLine))
    await shows(driver, "Latencies   evil␛]0;", "Save as")


async def several(driver: Driver) -> None:
    driver.pane.prompt.draft = NAME
    await driver.press("f7", "3")
    await driver.until(lambda: driver.pane.columns and not driver.writing)
    await shows(driver, "3 answers", "● done", "evil␛]0;")
    await driver.press("h")
    await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))


async def comparison(driver: Driver) -> None:
    def open_chosen(choice: Choice, on_progress: object, warn: object) -> Opened:
        assert callable(on_progress) and callable(warn)
        on_progress(NAME, 0.5)
        if choice.model == "other":
            raise RuntimeError(NAME)
        warn(NAME)
        return opener(engine(NAME))(on_progress, warn)

    chosen = [Choice(NAME), Choice("other")]
    screen = ComparisonScreen([NAME, "other"], [], open_chosen, prompt=NAME, chosen=chosen)
    await driver.app.push_screen(screen)
    await shows(driver, "2 of at most", "evil␛]0;")
    await driver.press("f5")
    await driver.until(lambda: screen.columns and not screen.answering)
    await shows(driver, "✗ failed", "● done", "evil␛]0;")


async def models(driver: Driver) -> None:
    await driver.press("ctrl+o")
    screen = driver.app.screen
    assert isinstance(screen, ModelsScreen)
    await driver.until(lambda: screen.rows)
    facts = {"id": NAME, "licence": NAME, "gated": True, "family": NAME, "downloads": 1}
    screen.hub, screen.sought = catalogue.describe_found({"hub": [facts]}), NAME
    for state, phase in (("running", NAME), ("running", "fetching"), ("failed", ""), ("done", "")):
        job = Job(1, "pull", NAME, state=state, phase=phase, note=NAME, result=NAME, share=0.5)  # type: ignore[arg-type]
        screen.questions[job.name] = job
        driver.screen.job_line.show([job])
        screen.sort_in()
        screen.listing.action_section(int(screen.row is None or screen.row.name != name_of(NAME)))
        screen.describe()
        await shows(driver, "evil␛]0;", "On the Hub")
    plan = dict.fromkeys(("model", "repository", "commit", "licence", "family", "precision", "precision_reason"), NAME)
    sizes = dict.fromkeys(("size", "there", "parameters", "disk_needed", "disk_free", "memory_needed", "memory"), 1)
    files = [{"name": NAME, "size": 1}]
    pull = {**plan, **sizes, "files": files, "export": None, "tokens_per_second": 1.0, "problems": [NAME]}
    await driver.app.push_screen(Asking(pull_question(pull, 100), "pull"))
    await shows(driver, "from       evil␛]0;", "licence    evil␛]0;")


async def manner(driver: Driver) -> None:
    driver.screen.action_over(PRESETS)
    await shows(driver, "Presets", "cannot read the presets", "needs a name")
    await driver.press("escape")
    driver.screen.action_over("sampling.system_prompt_screen:SystemPromptScreen")
    await shows(driver, "System prompt", "evil")
    await driver.press("escape")
    await driver.screen.action_sampling()
    await shows(driver, "Sampling")


async def typing(driver: Driver) -> None:
    assert "␛]0;" in driver.pane.prompt.text and driver.pane.prompt.text.startswith("draft evil")
    driver.pane.prompt.draft = ""
    await driver.type("@evil")
    await driver.until(lambda: driver.pane.prompt.popup.choices)
    await shows(driver, "[@click=app.quit]evil")
    assert len(driver.pane.prompt.popup.choices) == 1
    driver.pane.prompt.draft = f"/show {NAME}"
    driver.pane.prompt.action_submit()
    driver.pane.prompt.draft = ""
    await driver.press("ctrl+p")
    await driver.until(lambda: driver.app.screen.query(Input))
    driver.app.screen.query_one(Input).post_message(events.Paste(NAME))
    await driver.pilot.pause()


async def lines(driver: Driver) -> None:
    await shows(driver, " evil␛]0;", "▌ evil␛]0;")
    await driver.until(lambda: any("keys.toml" in toast and "evil" in toast for toast in driver.toasts))
    await driver.press("f1")
    await shows(driver, "Help")


@pytest.mark.parametrize("visit", [lines, sidebar, search, insights, several, comparison, models, manner, typing])
async def test_names_and_errors_are_harmless(visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / f"{MARKUP.replace('/', '')}").write_text("")
    (here / "evil\x1b[2J\u202e.txt").write_text("")
    monkeypatch.chdir(here)
    async with haunted(tmp_path / "home") as driver:
        if visit is not lines:
            driver.app.clear_notifications()
        await visit(driver)
        assert not driver.app._exit


async def test_a_model_that_cannot_be_opened_says_why_harmlessly() -> None:
    def fails(on_progress: object, warn: object) -> Opened:
        raise RuntimeError(f"{NAME}{'x' * 1_000_000}")

    async with started(beginning(fails, NAME)) as driver:
        await shows(driver, "✗ no model", "evil␛]0;")


async def test_what_is_copied_goes_to_the_terminal_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("SSH_CONNECTION", "somewhere")
    written: list[str] = []
    async with running(engine(f"{NAME} \ud800")) as driver:
        assert driver.app._driver
        monkeypatch.setattr(driver.app._driver, "write", written.append)
        driver.app.copy_to_clipboard(f"{NAME} \ud800")
        await driver.until(lambda: "Sent to the terminal's clipboard." in driver.toasts)
    sent = next(text for text in written if "]52;" in text)
    assert sent.startswith("\x1b]52;c;") and sent.endswith("\a")
    assert base64.b64decode(sent[7:-1]).decode() == f"{NAME} ?"


def test_a_setup_from_elsewhere_holds_no_surrogates_and_a_model_of_one_line() -> None:
    assert Setup.of_json({"model": "a\nb \ud800", "system": "x\n\ud800"}) == Setup(model="a b ?", system="x\n?")


# The guard


@pytest.mark.parametrize("text", hostile.SMALL)
def test_what_is_guarded_stays_as_wide(text: str) -> None:
    row = hostile.SMALL[text][:3_000].replace("\n", "").replace("\t", "")
    shown = guard_text(row)
    assert cell_len(shown) == cell_len(row)
    assert printable(shown) == shown and not FLOOD.search(shown)
    assert shown.count("\u200d") <= 3


@pytest.mark.parametrize(
    "text", ["👩\u200d👩\u200d👧\u200d👦 ❤️ 🏳️\u200d🌈", "日本語 größe ━━", "क्\u200dष", "می\u200cخواهم", "e\u0301"]
)
def test_what_is_harmless_passes_the_guard(text: str) -> None:
    assert guard_text(text) == text


def test_letters_that_are_joined_to_be_hidden_are_told() -> None:
    assert guard_text("a\u200db rm\u200d -r\u200df") == "� rm-�"
