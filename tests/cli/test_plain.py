"""`chatapp chat --plain`, in a terminal of its own, and what slash commands do to a conversation in lines."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from chatapp.cli import repl
from chatapp.cli.repl import prepare_input
from chatapp.commands.actions import explain
from chatapp.conversation import Dialogue, Setup
from chatapp.conversation.files import free_name
from chatapp.generation import Options
from chatapp.history import History
from chatapp.text.errors import InputError
from chatapp.workspace import Workspace
from support.checkpoints import MakeCheckpoint, Run
from support.line_view import Desk
from support.scripted_engine import ScriptedEngine

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from support.pseudo_terminal import Terminal


@pytest.fixture
def folder(checkpoint: MakeCheckpoint) -> Path:
    return checkpoint(chats=True, max_position_embeddings=32768)


@pytest.fixture
def terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    opened = Terminal("chat", str(folder), "--plain")
    yield opened
    opened.close()


ENDLESS = "/set parameter logit_bias 0=-100\n"
"""What keeps a tiny checkpoint from ending by itself."""


def test_it_answers_by_name_tells_the_latency_in_words_and_sends_no_escape_codes(
    terminal: Terminal, home: Path
) -> None:
    shown = terminal.until("You: ")
    terminal.type(ENDLESS + "/set parameter max_tokens 8\n")
    shown += terminal.until("You: ") + terminal.until("You: ")
    assert "max_tokens is 8 from the next answer on." in shown
    terminal.type("hello\n")
    answer = terminal.until("You: ")
    assert "\ntiny: " in answer
    assert "8 tokens, the first after " in answer
    assert " a second, 95 % within " in answer
    assert " tokens of context used." in answer
    assert "\x1b" not in shown + answer
    assert "\r" not in (shown + answer).replace("\r\n", "")
    terminal.type("\x04")
    assert terminal.process.wait(120) == 0
    with History(home / "history.db") as history:
        [conversation] = history.list()
        assert (conversation.title, conversation.messages) == ("hello", 2)


def test_an_interrupt_stops_the_answer_and_never_leaves(terminal: Terminal) -> None:
    terminal.until("You: ")
    terminal.type(ENDLESS)
    terminal.until("You: ")
    terminal.type("hello\n")
    terminal.until("tiny: ")
    terminal.interrupt_the_answer()
    terminal.until("You: ")
    interrupt_until(terminal, repl.LEAVING)
    terminal.type("/bye\n")
    assert terminal.process.wait(120) == 0


def interrupt_until(terminal: Terminal, text: str) -> None:
    """Press Ctrl+C, more than twice where readline misses one just before it waits."""
    for _ in range(20):
        terminal.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        os.set_blocking(terminal.ours, False)
        try:
            terminal.unread += os.read(terminal.ours, 65536).decode(errors="replace")
        except BlockingIOError:
            continue
        finally:
            os.set_blocking(terminal.ours, True)
        if text in terminal.unread:
            return
    raise AssertionError(f"{text!r} did not come, only {terminal.unread!r}")


def test_several_lines_are_one_message_and_nothing_in_them_is_a_command(terminal: Terminal) -> None:
    terminal.until("You: ")
    terminal.type("/set parameter max_tokens 2\n")
    terminal.until("You: ")
    terminal.type('"""/bye\n')
    terminal.until("... ")
    terminal.type('two"""\n')
    terminal.until("2 tokens, the first")
    terminal.until("You: ")
    terminal.type('/set system """one\n')
    terminal.until("... ")
    terminal.type('two"""\n')
    terminal.until("System prompt set.")
    terminal.type("/show system\n")
    terminal.until("one\r\ntwo\r\n")


def test_a_command_is_run_and_its_output_goes_with_the_next_message(terminal: Terminal, home: Path) -> None:
    terminal.until("You: ")
    terminal.type(ENDLESS + "/set parameter max_tokens 2\n")
    terminal.until("You: ")
    terminal.until("You: ")
    terminal.type("!echo $((40 + 2)); exit 3\n")
    terminal.until("42\r\nexit code 3")
    terminal.type("!!why?\n")
    terminal.until("2 tokens")
    terminal.until("You: ")
    terminal.type("more\n")
    terminal.until("2 tokens")
    with History(home / "history.db") as history:
        said = [one.text for one in history.messages(history.list()[0].id) if one.role == "user"]
    assert said == ["!why?\n\n$ echo $((40 + 2)); exit 3 (exit code 3):\n```\n42\n```", "more"]


def test_what_is_wrong_is_told_and_the_loop_goes_on(terminal: Terminal) -> None:
    terminal.until("You: ")
    terminal.type("/claer\n")
    terminal.until("Error: unknown command /claer; did you mean /clear?")
    terminal.type("/load nowhere\n")
    terminal.until("Error: ")
    terminal.type("/again\n")
    terminal.until("Error: there is no answer yet")
    terminal.type("/?\n")
    terminal.until("begin and end a text of several lines")


@pytest.mark.parametrize("command", [("chat", "{}"), ("--model", "{}")])
def test_a_dumb_terminal_gets_the_plain_mode(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal(command[0], command[1].format(folder))
    try:
        terminal.until("TERM=dumb cannot show the screen; using plain mode.")
        assert "\x1b" not in terminal.until("You: ")
    finally:
        terminal.close()


def test_a_character_that_is_no_text_costs_no_conversation(chatapp: Run, folder: Path) -> None:
    done = chatapp("chat", str(folder), "--plain", stdin=b"/set parameter \xff\n/set parameter seed 4\n")
    assert done.returncode == 0 and "seed is 4" in done.stderr, done.stderr


def test_lines_from_a_pipe_are_answered_and_only_the_talk_is_standard_output(chatapp: Run, folder: Path) -> None:
    done = chatapp("chat", str(folder), "--plain", stdin=ENDLESS + "/set parameter max_tokens 4\nhello\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tiny: ")
    assert "4 tokens, the first after" in done.stderr
    assert "You: " in done.stderr and "You: " not in done.stdout


def test_the_screen_needs_a_terminal(chatapp: Run) -> None:
    done = chatapp("chat")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the screen needs a terminal")


# What the commands do


def at_desk(history: History | None, folder: Path, *, can_chat: bool = True) -> Desk:
    """A conversation with a model of this folder."""
    engine = ScriptedEngine("Whales sing.", can_chat=can_chat)
    return Desk(engine, Setup(model=Workspace().open_store().get(str(folder)).name), history)


@pytest.fixture
def desk(folder: Path, home: Path) -> Iterator[Desk]:
    home.mkdir(exist_ok=True)
    with History(home / "history.db") as history:
        yield at_desk(history, folder)


def test_a_file_is_attached_where_somebody_types_its_name(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    desk.do("piped in @a.txt")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    desk.do("see @a.txt, @nobody")
    assert desk.branch[::2] == ["piped in @a.txt", "see @a.txt, @nobody\n\na.txt:\n```txt\none\n```"]


def test_an_option_is_set_for_the_next_answers_and_shown(desk: Desk) -> None:
    assert desk.do("/set parameter temperature 0.5") == "temperature is 0.5 from the next answer on."
    desk.do("hello")
    assert desk.scripted.options[-1].temperature == 0.5
    shown = desk.do("/show parameters").splitlines()
    assert "temperature          0.5  (set)" in shown
    assert f"top_k                {Options().top_k}" in shown


def test_timings_follow_each_answer_where_they_are_asked_for(desk: Desk) -> None:
    assert "Timings on" in desk.do("/set verbose") and desk.form.stats == "text"
    assert "Timings off" in desk.do("/set quiet") and desk.form.stats is None


def test_the_options_of_a_preset_are_taken(desk: Desk) -> None:
    assert "precise" in desk.do("/preset").splitlines()
    assert desk.do("/preset precise") == "The options are those of precise from the next answer on."
    desk.do("hello")
    assert desk.scripted.options[-1].temperature == 0.3
    with pytest.raises(InputError, match="whale"):
        desk.do("/preset whale")


def test_a_system_prompt_is_set_shown_and_taken_away(desk: Desk) -> None:
    assert desk.do("/show system") == "No system prompt; to set one: /set system TEXT"
    assert desk.do("/set system Be brief.") == "System prompt set."
    desk.do("hello")
    assert desk.scripted.asked[-1] == "Be brief.\nhello"
    assert desk.do("/show system") == "Be brief."
    desk.do("/set system @concise")
    assert desk.do("/show system").startswith("Answer in as few words")
    with pytest.raises(InputError, match="nobody"):
        desk.do("/set system @nobody")
    assert desk.do("/set system") == "System prompt removed."


def test_the_prompt_is_shown_as_the_model_read_it(desk: Desk) -> None:
    assert desk.do("/show prompt") == "There is no question yet."
    desk.do("/set system Be brief.")
    desk.do("hello")
    assert desk.do("/show prompt") == "<|system|>Be brief.\n<|user|>hello\n<|assistant|>"


def test_an_answer_can_be_given_again_and_a_question_put_in_other_words(desk: Desk) -> None:
    desk.do("hello")
    assert desk.do("/again") == "Whales sing."
    assert desk.scripted.asked == ["hello", "hello"]
    assert desk.do("/edit good day") == "Whales sing."
    assert desk.branch == ["good day", "Whales sing."]
    with pytest.raises(InputError, match="give the new text after /edit"):
        desk.do("/edit")


@pytest.mark.parametrize("command", ["/again", "/continue"])
def test_the_question_that_a_fork_ends_with_is_answered(desk: Desk, command: str) -> None:
    desk.do("hello")
    desk.do("good day")
    history, number = desk.history, desk.dialogue.conversation
    assert history and number
    forked = history.fork(number, desk.dialogue.branch()[:3])
    desk.dialogue = Dialogue(history, forked, kind="chat", setup=desk.dialogue.setup, warn=print)
    assert desk.do(command) == "Whales sing."
    assert desk.branch == ["hello", "Whales sing.", "good day", "Whales sing."]


def test_another_conversation_begins_with_the_same_setup(desk: Desk) -> None:
    desk.do("/set system Be brief.")
    desk.do("hello")
    assert desk.do("/clear") == "New conversation."
    assert desk.branch == []
    desk.do("good day")
    assert desk.scripted.asked[-1] == "Be brief.\ngood day"


def test_nothing_is_kept_where_that_was_wished(desk: Desk) -> None:
    assert desk.do("/set nohistory") == "New conversation; it is not saved."
    desk.do("a secret")
    with pytest.raises(InputError, match="this conversation is not saved"):
        desk.do("/save Secrets")
    assert desk.do("/search secret") == "Nothing found."
    assert desk.do("/set history") == "New conversation; it is saved."
    desk.do("no secret")
    assert desk.do("/search secret").startswith("1  no secret: ")


def test_a_conversation_gets_a_title_and_is_exported_without_overwriting(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this conversation is empty"):
        desk.do("/save Whales")
    desk.do("hello")
    assert desk.do("/save Blue whales") == "This conversation is called Blue whales."
    path = tmp_path / "talk.json"
    assert desk.do(f"/export {path}") == f"Written to {path}."
    assert json.loads(path.read_text())["conversations"][0]["title"] == "Blue whales"
    with pytest.raises(InputError, match="already exists and was not changed; choose another name"):
        desk.do(f"/export {path}")
    assert desk.do(f"/export html {tmp_path / 'talk.html'}").startswith("Written")
    assert "Whales sing." in (tmp_path / "talk.html").read_text()


def test_an_export_is_named_after_the_title(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    desk.do("What do whales sing?")
    assert desk.do("/export") == f"Written to {tmp_path / 'what-do-whales-sing.md'}."
    assert "Whales sing." in (tmp_path / "what-do-whales-sing.md").read_text()
    assert desk.do("/export") == f"Written to {tmp_path / 'what-do-whales-sing-2.md'}."
    assert str(free_name("../..", "html")) == "conversation.html"


def test_conversations_are_brought_in(desk: Desk, tmp_path: Path) -> None:
    desk.do("hello")
    desk.do(f"/export {tmp_path / 'talk.json'}")
    assert desk.do(f"/import {tmp_path / 'talk.json'}") == "1 conversation imported"
    assert len(desk.do("/search hello").splitlines()) == 2


def test_a_model_is_described(desk: Desk, folder: Path) -> None:
    info = desk.do("/show").splitlines()
    assert info[0] == "model       tiny"
    assert "runs on     onnx cpu int8" in info
    assert "<|assistant|>" in desk.do("/show template")
    assert desk.do("/show license") == "tiny does not state its licence."
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    assert desk.do("/show license") == "Its card says: apache-2.0"
    (folder / "LICENSE").write_text("Do as you like.\n")
    assert desk.do("/show license") == "Do as you like."
    assert desk.do("/show modelfile").startswith("models here have no Modelfile")
    assert "builtin" in desk.do("/model").splitlines()


def test_another_model_goes_on_with_the_conversation(desk: Desk, checkpoint: MakeCheckpoint) -> None:
    desk.do("hello")
    other = checkpoint("other", chats=True)
    assert desk.do(f"/load {other}") == "other answers from now on."
    assert desk.do("and you?") == "Another one speaks."
    assert desk.branch == ["hello", "Whales sing.", "and you?", "Another one speaks."]
    assert desk.dialogue.branch()[-1].model == "other"


def test_a_base_model_cannot_go_on_with_a_conversation_but_can_begin(desk: Desk, checkpoint: MakeCheckpoint) -> None:
    base = checkpoint("base")
    desk.do("hello")
    with pytest.raises(
        InputError, match="has no chat template and cannot continue a conversation; to start a new one: /clear"
    ):
        desk.do(f"/load {base}")
    assert desk.do("and you?") == "Whales sing."
    desk.do("/clear")
    assert desk.do(f"/load {base}") == "base answers from now on."
    assert desk.do("once upon a time") == "Another one speaks."
    assert desk.dialogue.kind == "completion"


def test_a_base_model_continues_each_text_anew(folder: Path) -> None:
    desk = at_desk(None, folder, can_chat=False)
    assert (desk.do("one"), desk.do("two")) == ("Whales sing.", "Whales sing.")
    assert desk.scripted.asked == ["one", "two"]
    with pytest.raises(InputError, match="conversations are not being saved"):
        desk.do("/search one")
    with pytest.raises(InputError, match="conversations are not being saved"):
        desk.do("/set history")


def test_an_answer_is_copied_to_where_it_can_be_pasted_from(
    desk: Desk, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "elsewhere")
    for name in "DISPLAY", "WAYLAND_DISPLAY", "TMUX":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    desk.do("sing")
    assert desk.do("/copy").startswith("No clipboard here; saved as")  # the output is no terminal
    assert (home / "copied.txt").read_text() == "Whales sing."
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert desk.do("/copy") == "Sent to the terminal's clipboard."
    assert capsys.readouterr().out == "\x1b]52;c;V2hhbGVzIHNpbmcu\a"


def test_arrows_bring_back_what_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    readline = pytest.importorskip("readline")
    monkeypatch.setenv("TERM", "xterm")
    readline.clear_history()
    prepare_input(["new", "of\ntwo lines", "old"])
    assert [readline.get_history_item(place) for place in (1, 2, 3)] == ["old", "new", None]


def test_what_needs_the_screen_says_so(desk: Desk) -> None:
    with pytest.raises(InputError, match="that needs the screen; to open it, run chatapp without --plain"):
        desk.do("/theme paper")


def test_help_tells_the_commands_and_the_keys(desk: Desk) -> None:
    assert desk.do("/?") == explain()
    assert desk.do("/? set") == explain("/set")
    assert desk.do("/? shortcuts").startswith("Ctrl+C  stops the answer")
