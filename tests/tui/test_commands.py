"""What is typed, chosen and clicked on the real screen: commands, palette, themes, jumps, attachments, mouse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from chatapp.models.suggestion import Offer
from chatapp.settings import presets
from chatapp.tui.chat import reply
from chatapp.tui.chat.message import Answer, Said
from chatapp.tui.chat.search import SearchScreen
from chatapp.tui.help.help import Help
from chatapp.tui.help.theme_picker import ThemePicker
from chatapp.tui.keys.jump import Jump
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.widgets.windows import NoteScreen
from chatapp.workspace import Workspace
from support.screen_driver import Driver, beginning, running, started
from support.scripted_engine import ScriptedEngine, opener

CODE = "So:\n\n```python\none = 1\n```\n\n```sh\nls\n```\n"


@asynccontextmanager
async def talking(
    tmp_path: Path, answer: str = "Because.", *, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Driver, ScriptedEngine]]:
    """A conversation that has begun, with a model that the store has."""
    engine = ScriptedEngine(answer, can_chat=True)
    async with started(beginning(engine, "builtin", history=tmp_path / "history.db"), size=size) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue and driver.pane.kind == "chat")
        await driver.until(lambda: driver.pane.prompt.has_focus, "the prompt")
        await driver.type("why?\n")
        await driver.until(lambda: driver.said and not driver.writing, "an answer")
        yield driver, engine


async def enter(driver: Driver, line: str) -> None:
    """Type a command and send it, whatever is offered meanwhile."""
    driver.pane.prompt.focus()
    driver.pane.prompt.draft = line
    await driver.pilot.pause()
    driver.pane.prompt.action_submit()
    await driver.pilot.pause()


# Commands


async def test_parameters_system_prompts_and_presets_are_set_and_shown(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, engine):
        await enter(driver, "/set parameter temperature 0.2")
        assert driver.toasts[-1] == "temperature is 0.2 from the next answer on."
        await enter(driver, "/set system Be brief.")
        await driver.type("more\n")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert engine.options[-1].temperature == 0.2 and engine.chats[-1][0].text == "Be brief."
        presets.save(driver.app.workspace.home / "presets.toml", "mine", {"top_k": 7})
        await enter(driver, "/preset mine")
        assert driver.toasts[-1] == "The preset mine is in use."
        await driver.type("more\n")
        await driver.until(lambda: len(engine.asked) == 3 and not driver.writing)
        assert (engine.options[-1].top_k, engine.options[-1].temperature) == (7, engine.defaults.temperature)
        await enter(driver, "/set parameter temperature hot")
        assert "temperature" in driver.toasts[-1] and driver.pane.prompt.text == "/set parameter temperature hot"


async def test_the_offer_of_a_chat_model_goes_when_one_answers(tmp_path: Path) -> None:
    async with running(ScriptedEngine()) as driver:
        driver.screen.offer_line.offer = Offer("chat", ("a",), "Want to chat?", "downloads a (1 GB)")
        await driver.pilot.pause()
        await driver.until(lambda: "Want to chat?" in driver.picture)
        driver.app.workspace.opens = lambda name: opener(ScriptedEngine(can_chat=True))  # type: ignore[attr-defined]
        await driver.screen.models.use("chatty")
        await driver.until(lambda: "Want to chat?" not in driver.picture)


async def test_an_offer_is_answered_once(tmp_path: Path) -> None:
    async with running(ScriptedEngine()) as driver:
        driver.screen.offer_line.offer = Offer("chat", ("a",), "Want to chat?", "downloads a (1 GB)")
        answered = driver.app.workspace.home / "offer.json"
        await driver.press("f9")
        await driver.until(answered.exists, "the answer to be kept")
        assert "Want to chat?" not in driver.picture
        answered.unlink()
        await driver.press("f9")
        assert not answered.exists()


@pytest.mark.parametrize("line", ["/theme nope", "/preset nope", "/load nope", "/model nope"])
async def test_a_command_with_a_name_that_there_is_not_stays_to_be_mended(tmp_path: Path, line: str) -> None:
    async with talking(tmp_path) as (driver, _):
        await driver.type(f"{line}\n")
        await driver.until(lambda: driver.toasts)
        assert "nope" in driver.toasts[-1] and driver.pane.prompt.text == line
    async with running(ScriptedEngine()) as driver:
        await driver.type(f"{line}\n")
        await driver.until(lambda: driver.toasts)
        assert "nope" in driver.toasts[-1] and driver.text == line


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("", "context     1,024 tokens"),
        ("info", "runs on     onnx cpu int8"),
        ("parameters", "temperature"),
        ("system", "No system prompt; to set one: /set system TEXT"),
        ("template", "builtin has no chat template: it continues text."),
        ("modelfile", "models here have no Modelfile"),
    ],
)
async def test_show_tells_about_the_model(tmp_path: Path, what: str, shown: str) -> None:
    async with talking(tmp_path) as (driver, _):
        await enter(driver, f"/show {what}")
        await driver.until(lambda: isinstance(driver.app.screen, NoteScreen) and shown in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.screen)


async def test_a_conversation_is_named_exported_imported_searched_and_left(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, _):
        history = driver.screen.history
        assert history
        await enter(driver, "/save Reasons")
        assert history.list()[0].title == "Reasons"
        file = tmp_path / "why.json"
        await enter(driver, f"/export json {file}")
        await driver.until(file.exists)
        await enter(driver, f"/import {file}")
        await driver.until(lambda: len(history.list()) == 2)
        for line in (f"/export json {file}", "/import nowhere.json"):
            await enter(driver, line)
            await driver.until(lambda: driver.pane.prompt.text == line, "the line to come back")  # noqa: B023
        await enter(driver, "/clear")
        await driver.until(lambda: driver.said == [])
        await enter(driver, "/search because")
        await driver.until(lambda: isinstance(driver.app.screen, SearchScreen) and "2 matches" in driver.picture)
        await driver.press("escape")
        await enter(driver, "/bye")
        await driver.until(lambda: not driver.app.is_running)


async def test_the_last_answer_is_given_again_and_the_last_question_asked_in_other_words(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, engine):
        await enter(driver, "/again")
        await driver.until(lambda: engine.asked == ["why?"] * 2 and not driver.writing)
        for text in ("why not?", "/bye"):
            await enter(driver, f"/edit {text}")
            await driver.until(lambda: engine.asked[-1] == text and not driver.writing)  # noqa: B023
            assert driver.said == [("user", text), ("assistant", "Because.")] and not driver.pane.outbox.editing
        await enter(driver, "/edit")
        assert driver.pane.prompt.text == "//bye" and driver.pane.outbox.editing


async def test_a_copy_of_whatever_is_told_truthfully(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "1")  # this machine's clipboard would be the wrong one
    monkeypatch.setenv("TERM", "dumb")
    async with talking(tmp_path, CODE) as (driver, _):
        for line, text in (("/copy 1", "one = 1\n"), ("/copy 2", "ls\n"), ("/copy", CODE)):
            driver.app.clear_notifications()
            await enter(driver, line)
            file = driver.app.workspace.home / "copied.txt"
            await driver.until(lambda file=file, text=text: file.exists() and file.read_text() == text)  # type: ignore[misc]
            await driver.until(lambda file=file: str(file) in " ".join(driver.toasts[-1:]))  # type: ignore[misc]
        await enter(driver, "/copy 3")
        assert driver.toasts[-1] == "There is no code block 3: this answer has 2"
        for key in ("ctrl+c", "ctrl+x"):
            driver.pane.prompt.text = key
            await driver.press("shift+end", key)
            await driver.until(lambda key=key: file.read_text() == key)  # type: ignore[misc]


async def test_models_are_loaded_by_name_and_unknown_ones_are_told(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, engine):
        await enter(driver, "/load builtn")
        assert "builtn" in driver.toasts[-1] and driver.pane.prompt.text == "/load builtn"
        await enter(driver, "/load builtin")
        await driver.until(lambda: driver.pane.opened)
        assert driver.said and driver.pane.choice.model == "builtin"
        await enter(driver, "/model")
        await driver.until(lambda: isinstance(driver.app.screen, ModelsScreen))


async def test_help_and_unknown_commands(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, _):
        await enter(driver, "/?")
        await driver.until(lambda: isinstance(driver.app.screen, NoteScreen) and "/bye" in driver.picture)
        await driver.press("escape")
        await enter(driver, "/? shortcuts")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        await driver.press("escape")
        await enter(driver, "/celar")
        assert driver.toasts[-1] == "Unknown command /celar; did you mean /clear?"
        assert [*driver.app._notifications][-1].severity == "warning"
        await enter(driver, "/set nohistory")
        await driver.until(lambda: "This conversation is not saved." in driver.toasts)
        assert not driver.pane.kept
        await driver.type("a secret\n")
        await driver.until(lambda: driver.said and not driver.writing)
        await enter(driver, "/save Secrets")
        assert driver.toasts[-1] == "This conversation is not saved" and driver.pane.prompt.text == "/save Secrets"
        await enter(driver, "/set history")
        await driver.until(lambda: driver.pane.kept and "This conversation is saved." in driver.toasts)


# Themes, help, jumps, the palette


async def test_a_theme_is_chosen_by_looking_and_kept(tmp_path: Path) -> None:
    start = beginning(ScriptedEngine())
    kept = start.home / "settings.toml"
    async with started(start, size=(120, 40)) as driver:
        await driver.until(lambda: driver.pane.opened)
        await driver.press("f2")
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker))
        await driver.press("down")
        await driver.until(lambda: driver.app.theme != "midnight")
        await driver.press("escape")
        await driver.until(lambda: driver.app.theme == "midnight")
        assert not kept.exists()
        await driver.press("f2", "down", "enter")
        await driver.until(lambda: kept.exists() and Workspace(start.home).read_settings().theme == driver.app.theme)
        await driver.app.run_action("keep_theme('paper')")
        assert Workspace(start.home).read_settings().theme == driver.app.theme == "paper"


async def test_every_place_in_the_help_has_a_name(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, _):
        await driver.press("ctrl+b", "f1")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        screen = driver.app.screen
        assert isinstance(screen, Help)
        titles = [section.title for section in screen.sections]
        assert titles[:1] == ["Conversation"] or "Conversation" in titles
        assert {"Message", "Prompt", "List of conversations", "Everywhere", "Commands", "Mouse"} <= set(titles)
        assert not {"Said", "Question", "Answer", "Sidebar", "Pane"} & set(titles)


async def test_jumping_goes_to_messages_and_back_to_the_prompt(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, _):
        await driver.press("f6")
        await driver.until(lambda: isinstance(driver.app.screen, Jump))
        await driver.press("s")
        await driver.until(lambda: driver.app.focused is driver.pane.query(Answer).last())
        await driver.press("f6")
        await driver.until(lambda: isinstance(driver.app.screen, Jump))
        await driver.press("a")
        await driver.until(lambda: driver.pane.prompt.has_focus)


# Attachments, the mouse, the bell


async def test_what_is_attached_is_sent_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Whales sing.\n", encoding="utf-8")
    async with talking(tmp_path) as (driver, engine):
        await driver.type("Who sings? @notes.txt\n")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        question = engine.chats[-1][-1].text
        assert question.startswith("Who sings? @notes.txt\n")
        assert "notes.txt" in question.split("\n", 1)[1] and "Whales sing.\n" in question


async def test_the_end_of_a_long_answer_is_told_to_who_looks_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "LONG", 0.0)
    engine = ScriptedEngine("Because.", can_chat=True, pause_after=1)
    async with running(engine) as driver:
        await driver.type("why?\n")
        await driver.wrote(1)
        driver.app.app_focus = False
        engine.go.set()
        await driver.until(lambda: "chatty has answered." in driver.toasts)
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("why?\n")
        await driver.answered()
        assert not driver.toasts


async def click(pilot: Pilot[None], driver: Driver, text: str) -> None:
    """Click where a text is on the screen."""
    rows = driver.picture.splitlines()
    y = max(place for place, row in enumerate(rows) if text in row)
    await pilot.click(offset=(rows[y].index(text) + 1, y))


async def test_clicks_go_to_messages_conversations_and_keys(tmp_path: Path) -> None:
    async with talking(tmp_path) as (driver, _):
        await click(driver.pilot, driver, "Because.")
        assert driver.app.focused is driver.pane.query(Answer).last()
        await click(driver.pilot, driver, "why?")
        assert driver.app.focused is driver.pane.query(Said).first()
        await click(driver.pilot, driver, "^N")
        await driver.until(lambda: driver.said == [])
        await click(driver.pilot, driver, "^B")
        await driver.until(lambda: driver.screen.sidebar and "Today" in driver.picture)
        await click(driver.pilot, driver, "why?")
        await driver.until(lambda: driver.said)
