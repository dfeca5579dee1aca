"""`--system` and `--preset`: for one answer, in lines, and on the screen."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.conversation import Setup
from chatapp.history import History
from chatapp.settings import presets, settings, system_prompts
from chatapp.workspace import Workspace
from support.checkpoints import MakeCheckpoint, Run
from support.screen_driver import beginning, started
from support.scripted_engine import ScriptedEngine

LIBRARY = system_prompts.BUILT_IN["concise"]


@pytest.fixture
def folder(checkpoint: MakeCheckpoint) -> Path:
    return checkpoint(chats=True, max_position_embeddings=32768)


def kept() -> Setup:
    """How the last conversation is answered."""
    with History(settings.home() / "history.db") as history:
        last = history.last()
        assert last
        return Setup.of_json(last.setup)


@pytest.mark.usefixtures("home")
def test_names_are_looked_up_where_the_user_keeps_them() -> None:
    presets.save(settings.home() / "presets.toml", "mine", {"temperature": 0.4})
    system_prompts.save(settings.home() / "prompts", "pirate", "Talk like a pirate.")
    read, greedy = Workspace().read_setup, {"temperature": 0.0, "repetition_penalty": 1.0}
    assert read("mine", "@pirate") == Setup(options={"temperature": 0.4}, system="Talk like a pirate.")
    assert read("greedy", "Be brief.") == Setup(options=greedy, system="Be brief.")
    assert read(None, None) == Setup()


@pytest.mark.usefixtures("home")
def test_one_answer_keeps_to_them_and_what_is_said_in_full_counts_more(chatapp: Run, folder: Path) -> None:
    done = chatapp(
        "run", str(folder), "hello", "--system", "@concise", "--preset", "creative", "--min-p", "0", "--max-tokens", "2"
    )
    assert done.returncode == 0, done.stderr
    setup = kept()
    assert setup.system == LIBRARY
    assert setup.options == {**presets.find(Path("none"), "creative").options, "min_p": 0.0, "max_tokens": 2}
    done = chatapp("run", "-c", "more", "--max-tokens", "2")
    assert done.returncode == 0, done.stderr


def test_new_conversations_keep_to_the_system_prompt_of_the_settings(
    chatapp: Run, folder: Path, checkpoint: MakeCheckpoint, home: Path
) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('system = "Be kind."')
    options = ("--max-tokens", "2")
    for given, system in (
        ([str(folder)], "Be kind."),
        ([str(folder), "--system", ""], ""),
        ([str(folder), "--system", "@concise"], LIBRARY),
        (["-c"], LIBRARY),
    ):
        done = chatapp("run", *given, "hello", *options)
        assert (done.returncode, kept().system) == (0, system), done.stderr
    system_prompts.save(home / "prompts", "tiny", "Be a pirate.")
    assert chatapp("run", str(folder), "hello", *options).returncode == 0 and kept().system == "Be a pirate."
    (home / "prompts" / "tiny.md").unlink()
    assert chatapp("run", str(checkpoint("base")), "hello", *options).returncode == 0
    assert "Be kind." in chatapp("chat", str(folder), "--plain", stdin="/show system\n").stderr


def test_files_follow_the_prompt_as_if_it_named_them(chatapp: Run, folder: Path, home: Path) -> None:
    (folder / "a b.py").write_text("x = 1\n")
    file, options = str(folder / "a b.py"), ("--max-tokens", "2")
    done = chatapp("run", str(folder), "-", "-f", file, *options, stdin="why?\n")
    assert done.returncode == 0, done.stderr
    with History(home / "history.db") as history:
        said = history.messages(history.list()[0].id)[0].text
    assert said == f'why? @"{file}"\n\n{file}:\n```py\nx = 1\n```'
    assert "nowhere cannot be read" in chatapp("run", str(folder), "why?", "-f", "nowhere").stderr
    assert "has no chat template" in chatapp("run", "builtin", "why?", "-f", file).stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["run", "chat"])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--preset", "creativ"), "unknown preset 'creativ'; did you mean creative?"),
        (("--system", "@concice"), "unknown system prompt 'concice'; did you mean concise?"),
    ],
)
def test_a_name_that_is_not_there_is_refused_before_a_model_is_opened(
    chatapp: Run, command: str, options: tuple[str, str], told: str
) -> None:
    done = chatapp(command, "nowhere", *options)
    assert (done.returncode, done.stderr) == (1, f"Error: {told}\n")


@pytest.mark.usefixtures("home")
def test_a_model_that_continues_text_refuses_a_system_prompt(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    done = chatapp("run", str(checkpoint()), "hello", "--system", "Be brief.")
    assert done.returncode == 1
    assert "has no chat template, so it takes no system prompt" in done.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.skipif(sys.platform == "win32", reason="ends as a pipe does")
def test_the_plain_mode_begins_with_them(chatapp: Run, folder: Path) -> None:
    arguments = ("chat", str(folder), "--plain", "--system", "Be brief.", "--preset", "greedy")
    done = chatapp(*arguments, stdin="/show system\n/show parameters\n/bye\n")
    assert "Be brief." in done.stderr
    assert "temperature          greedy  (set)" in done.stderr


async def test_new_conversations_on_the_screen_begin_with_them_and_others_stay_as_they_were(tmp_path: Path) -> None:
    engine, path = ScriptedEngine("Yes.", can_chat=True), tmp_path / "history.db"
    start = beginning(engine, "chatty", history=path)
    wanted = Setup(options={"temperature": 0.2}, system="Be brief.")
    for setup, system in ((None, ""), (wanted, "Be brief.")):
        async with started(start, setup=setup) as driver:
            await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
            await driver.type("why?\n")
            await driver.until(lambda: driver.said and not driver.writing)
            assert [one.text for one in engine.chats[-1] if one.role == "system"] == ([system] if system else [])
    assert engine.options[-1].temperature == 0.2
    system_prompts.save(start.home / "prompts", "other", "Be a pirate.")
    async with started(start, model="other") as driver:
        await driver.until(lambda: driver.pane.dialogue)
        assert driver.pane.dialogue and driver.pane.dialogue.setup.system == "Be a pirate."
    start.chosen = replace(start.chosen, system="@concise")
    async with started(start, model="chatty") as driver:
        await driver.until(lambda: driver.pane.dialogue)
        assert driver.pane.dialogue and driver.pane.dialogue.setup.system == LIBRARY
    async with started(start, setup=wanted) as driver:
        await driver.until(lambda: driver.screen.history and driver.pane.dialogue)
        assert driver.screen.history
        await driver.screen.open_conversation(driver.screen.history.list()[-1])
        assert driver.pane.dialogue and driver.pane.dialogue.setup.system == ""
