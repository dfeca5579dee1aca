"""Sessions that real editors had, two editors at once, large files, kills, and what must never be printed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from support.checkpoints import ROOT, MakeCheckpoint
from support.lsp_editor import LspEditor, LspError, editing
from support.patience import PATIENCE
from support.scripted_engine import ScriptedEngine
from support.stand_in_home import CUT, HALF, LINE, REST, Home, texts

SESSIONS = sorted((Path(__file__).parent / "sessions").glob("*.jsonl"))


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_a_session_of_a_real_editor_leaves_the_text_that_it_had(session: Path) -> None:
    lines = [json.loads(line) for line in session.read_text("utf-8").splitlines()]
    messages = [line["message"] for line in lines if line["from"] == "editor"]
    (final,) = [line["text"] for line in lines if line["from"] == "drill"]
    with editing(Home(ScriptedEngine(text="result"))) as editor:
        answers: dict[object, tuple[int, Future[Any]]] = {}
        for message in messages:
            method = message.get("method")
            if method in (None, "shutdown", "exit"):  # the editor here answers, and leaves, by itself
                continue
            if method == "$/cancelRequest":
                editor.tell(method, {"id": answers[message["params"]["id"]][0]})
            elif "id" in message:
                answer = editor.ask(method, message.get("params"))
                answers[message["id"]] = editor.last, answer
                if method == "initialize":
                    answer.result(PATIENCE)
            else:
                editor.tell(method, message.get("params"))
        with pytest.raises(LspError):
            editor.ask("that everything before was read").result(PATIENCE)
        for _, answer in answers.values():
            try:
                answer.result(PATIENCE)
            except LspError as error:
                assert "-32800" in str(error), "it was cancelled"
        assert editor.server
        (document,) = editor.server.documents.values()
        assert document.text == final
        assert not [told for told in editor.told if told["method"] == "window/showMessage"]


def test_two_editors_work_at_once(home: Path) -> None:
    with (
        editing(Home(ScriptedEngine(text=""), stats=True)) as first,
        editing(Home(ScriptedEngine(), stats=True)) as second,
    ):
        for editor in (first, second):
            editor.begin()
            editor.open(HALF)
        second.type("x", 0, 0)
        assert texts(first.ghost(1, CUT)) == texts(second.ghost(1, CUT)) == [REST]
    shown = [json.loads(line) for line in (home / "completions.jsonl").read_text().splitlines()]
    assert len(shown) == 2


def test_figures_that_cannot_be_kept_are_told_once_and_offers_go_on(home: Path) -> None:
    (home / "completions.jsonl").mkdir(parents=True)
    with editing(Home(ScriptedEngine(text=""), stats=True)) as editor:
        editor.begin()
        editor.open(HALF)
        assert texts(editor.ghost(1, CUT)) == [REST]
        editor.type(REST, 1, CUT)
        assert "cannot save" in editor.until("window/showMessage")["message"]
        editor.ghost(1, CUT)
        assert sum(told["method"] == "window/showMessage" for told in editor.told) == 1


def test_a_file_of_50_mb_is_edited_and_completed() -> None:
    text = (LINE * (50_000_000 // len(LINE))) + LINE[:CUT]
    last = text.count("\n")
    with editing(Home(ScriptedEngine(text=""))) as editor:
        editor.begin()
        editor.open(text)
        assert texts(editor.ghost(last, CUT)) == [REST]
        editor.type("# the first line\n", 0, 0)
        editor.type(" ", last + 1, CUT)
        assert texts(editor.ghost(last + 1, CUT + 1)) == [REST[1:]]


@contextmanager
def started(*, parent: int | None = None) -> Iterator[tuple[LspEditor, "subprocess.Popen[bytes]"]]:
    """An editor, and a server in a process of its own."""
    command = [sys.executable, "-m", "chatapp", "lsp", "--stdio"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        editor = LspEditor(cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout))
        yield editor, process
        process.wait(PATIENCE)
        editor.reader.join(PATIENCE)


def test_a_server_that_was_killed_is_started_anew_and_ends_with_its_editor(checkpoint: MakeCheckpoint) -> None:
    given = {"initializationOptions": {"model": str(checkpoint())}}
    with started() as (editor, process):
        editor.begin(**given)
        process.kill()
    waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with waiting as another, started() as (editor, process):
        editor.begin(processId=another.pid, **given)
        editor.until_loaded()
        editor.open(HALF + "  # secret")
        assert texts(editor.ghost(1, CUT)) == []
        with pytest.raises(LspError):
            editor.ask("textDocument/inlineCompletion", {"textDocument": "secret"}).result(PATIENCE)
        another.kill()
        assert process.wait(PATIENCE) == 1
        assert process.stderr and b"secret" not in process.stderr.read()


def test_a_server_ends_at_once_by_ctrl_c() -> None:
    with started() as (editor, process):
        editor.begin(initializationOptions={"enabled": False})
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT


def test_a_server_ends_with_0_after_a_goodbye_and_with_1_without() -> None:
    with started() as (editor, process):
        editor.begin(initializationOptions={"enabled": False})
        editor.leave()
        assert process.wait(PATIENCE) == 0
    with started() as (editor, process):
        editor.begin(initializationOptions={"enabled": False})
        editor.output.close()
        assert process.wait(PATIENCE) == 1


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    code = (
        "import os; from chatapp.lsp.streams import claim_output; output = claim_output(); "
        "print('python'); os.write(1, b'native'); os.system('echo child'); output.write(b'protocol'); output.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == b"protocol"
    assert {b"python", b"child"} <= {*done.stderr.replace(b"native", b"").split()}
