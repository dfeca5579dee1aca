"""Sessions of an editor with the language server, by the messages themselves."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chatapp.completion.acceptance import BLOCK
from chatapp.workspace import Opened
from support.checkpoints import MakeCheckpoint, Run
from support.lsp_editor import GHOST, POPUP, URI, LspEditor, LspError, editing
from support.patience import PATIENCE, until
from support.scripted_engine import ScriptedEngine
from support.stand_in_home import CUT, HALF, LINE, REST, Home, texts


@pytest.fixture
def editor() -> Iterator[LspEditor]:
    """An editor with ghost text, where files alone have offers."""
    with editing(Home(ScriptedEngine(text=""))) as editor:
        editor.begin()
        yield editor


@contextmanager
def being_answered() -> Iterator[tuple[ScriptedEngine, LspEditor, "Future[Any]"]]:
    """A slow model, an editor that has asked, and the answer that it waits for."""
    engine = ScriptedEngine(text="word " * 400, delay=0.02)
    with editing(Home(engine)) as editor:
        editor.begin(initializationOptions={"threshold": 0})
        editor.until_loaded()
        editor.open("y")
        answer = editor.ask_ghost(0, 1)
        until(lambda: engine.busy)
        yield engine, editor, answer


def test_ghost_text_is_offered_at_the_cursor(editor: LspEditor) -> None:
    editor.open(HALF)
    (item,) = editor.ghost(1, CUT)
    assert item["insertText"] == REST
    assert item["range"] == {"start": {"line": 1, "character": CUT}, "end": {"line": 1, "character": CUT}}


def test_edits_are_followed(editor: LspEditor) -> None:
    editor.open(LINE)
    editor.type("    parser.add", 1, 0)
    editor.type(LINE[14:CUT], 1, 14)
    assert texts(editor.ghost(1, CUT)) == [REST]


def test_the_editor_chooses_how_places_are_counted() -> None:
    for encoding, width in (("utf-8", 4), ("utf-16", 2), ("utf-32", 1)):
        with editing(Home(ScriptedEngine(text=""))) as editor:
            can = editor.begin(GHOST | {"general": {"positionEncodings": [encoding]}})
            assert can["positionEncoding"] == encoding
            line = LINE.replace("--verbose", "--🙂-verbose")
            editor.open(line + line[: CUT + 1])
            editor.type(",", 1, CUT + width)
            (item,) = editor.ghost(1, CUT + 1 + width)
            assert item["insertText"] == line[CUT + 2 : -1]
            assert item["range"]["start"] == {"line": 1, "character": CUT + 1 + width}


def test_an_editor_without_ghost_text_gets_a_list_that_it_does_not_filter_away() -> None:
    with editing(Home(ScriptedEngine(text=""))) as editor:
        can = editor.begin(POPUP)
        assert can["completionProvider"] == {"resolveProvider": False}  # Vim's ALE takes an empty one for none
        editor.open(LINE + LINE[: CUT + 3])
        (item,) = editor.popup(1, CUT + 3)
        assert item["textEdit"]["range"]["start"] == {"line": 1, "character": CUT + 1}
        assert item["textEdit"]["range"]["end"] == {"line": 1, "character": CUT + 3}
        assert item["textEdit"]["newText"] == item["filterText"] == "help='more')"


def test_an_editor_with_ghost_text_is_not_told_the_same_in_a_list() -> None:
    with editing(Home(ScriptedEngine(text=""))) as another:
        assert "completionProvider" not in another.begin(GHOST)


def test_what_is_selected_in_a_list_is_taken_for_typed(editor: LspEditor) -> None:
    editor.open(LINE + "    parser.add_arg")
    selected: dict[str, Any] = {
        "range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 18}},
        "text": LINE[11:CUT],
    }
    (item,) = editor.ghost(1, 18, selectedCompletionInfo=selected)
    assert item["insertText"] == selected["text"] + REST
    assert item["range"] == selected["range"]


def test_what_is_typed_on_is_not_computed_again() -> None:
    engine = ScriptedEngine(text="return a + b\n")
    with editing(Home(engine)) as editor:
        editor.begin(initializationOptions={"threshold": 0})
        editor.until_loaded()
        editor.open("def add(a, b):\n    ")
        (first,) = editor.ghost(1, 4)
        assert len(engine.asked) == 1
        for place, letter in enumerate("retu"):
            editor.type(letter, 1, 4 + place)
            (item,) = editor.ghost(1, 5 + place)
            assert f"{'retu'[: place + 1]}{item['insertText']}" == first["insertText"]
        assert len(engine.asked) == 1
        editor.type("x", 1, 8)
        editor.ghost(1, 9)
        assert len(engine.asked) == 2


def test_the_newest_request_of_a_document_wins_and_no_more_than_one_waits() -> None:
    engine = ScriptedEngine(text="(1, 2, 3)\n", pause_after=1)
    with editing(Home(engine)) as editor:
        editor.begin(initializationOptions={"threshold": 0})
        editor.until_loaded()
        editor.open("y = n")
        answers = [editor.ask_ghost(0, 5)]
        until(lambda: engine.paused)  # before it, a request that is superseded ends, and the next one runs
        for place, letter in enumerate("abcdefghi", 5):
            editor.type(letter, 0, place)
            answers.append(editor.ask_ghost(0, place + 1))
        for answer in answers[1:-1]:
            assert answer.result(PATIENCE)["items"] == [], "answered before the model goes on"
        engine.pause_after = None
        engine.go.set()
        assert answers[0].result(PATIENCE)["items"] == []
        assert texts(answers[-1].result(PATIENCE)["items"]) == ["(1, 2, 3)"]
        assert len(engine.asked) == 2


def test_a_cancelled_request_stops_the_model() -> None:
    with being_answered() as (engine, editor, answer):
        editor.tell("$/cancelRequest", {"id": editor.last})
        with pytest.raises(LspError, match="-32800"):
            answer.result(PATIENCE)
        until(lambda: engine.closed)
        assert engine.last_usage and engine.last_usage.completion_tokens < 100


def test_several_are_offered_when_they_are_asked_for(editor: LspEditor) -> None:
    editor.open("value = find(one)\nvalue = find(two)\nvalue = find(three)\nvalue = find(")
    assert len(editor.ghost(3, 13)) <= 1
    assert {"one)", "two)", "three)"} <= {*texts(editor.ghost(3, 13, invoked=True))}


def test_the_first_answer_comes_while_the_model_is_loading() -> None:
    over = threading.Event()

    class Slow(Home):
        def open_model(self, *given: Any, **options: Any) -> Opened:
            assert over.wait(PATIENCE)
            return super().open_model(*given, **options)

    with editing(Slow(ScriptedEngine())) as editor:
        editor.begin()
        editor.open(HALF)
        assert texts(editor.ghost(1, CUT)) == [REST]
        over.set()


def test_the_progress_of_loading_is_told() -> None:
    begun = threading.Event()

    class Slow(Home):
        def open_model(self, *given: Any, **options: Any) -> Opened:
            assert begun.wait(PATIENCE)
            return super().open_model(*given, **options)

    with editing(Slow(ScriptedEngine())) as editor:
        editor.begin()
        assert editor.until("$/progress")["value"]["title"] == "Opening builtin"
        begun.set()
        editor.until_loaded()
        values = [message["params"]["value"] for message in editor.told if message["method"] == "$/progress"]
        assert [value["kind"] for value in values] == ["begin", "report", "end"]
        assert values[1]["percentage"] == 50


def test_a_model_that_cannot_be_opened_is_told_once_and_files_go_on() -> None:
    with editing(Home()) as editor:
        editor.begin(initializationOptions={"model": "nonsense"})
        assert "nonsense" in editor.until("window/showMessage")["message"]
        editor.open(HALF)
        assert texts(editor.ghost(1, CUT)) == [REST]


def test_a_model_that_breaks_is_told_once() -> None:
    with editing(Home(ScriptedEngine(fail_after=0))) as editor:
        editor.begin()
        editor.until_loaded()
        editor.open("secret = 1")
        assert editor.ghost(0, 10, invoked=True) == []
        assert editor.ghost(0, 10, invoked=True) == []
        told = [message["params"]["message"] for message in editor.told if message["method"] == "window/showMessage"]
        assert len(told) == 1 and "RuntimeError" in told[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"treshold": 0.5}, "did you mean threshold?"),
        ({"threshold": 2}, "from 0 to 1"),
        ({"enabled": "yes"}, "true or false"),
        ({"lines": -1}, "0 or more"),
        ("fast", "an object"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(given: object, said: str) -> None:
    with editing(Home(ScriptedEngine())) as editor:
        editor.begin(initializationOptions=given)
        assert said in editor.until("window/showMessage")["message"]


def test_settings_change_while_one_works(editor: LspEditor) -> None:
    editor.open(HALF)
    editor.tell("workspace/didChangeConfiguration", {"settings": {"chatapp": {"enabled": False}}})
    assert editor.ghost(1, CUT) == []
    editor.tell("workspace/didChangeConfiguration", {"settings": {"chatapp": {"enabled": True, "fast": True}}})
    assert "'fast'" in editor.until("window/showMessage")["message"]
    assert editor.ghost(1, CUT) == [], "nothing of what is wrong counts"
    editor.tell("workspace/didChangeConfiguration", {"settings": {"chatapp": {"enabled": True}}})
    assert texts(editor.ghost(1, CUT)) == [REST]
    editor.tell("workspace/didChangeConfiguration", {"settings": {"chatapp": {"threshold": 1}}})
    assert editor.ghost(1, CUT) == [], "what was offered before is no longer likely enough"


def test_another_model_takes_the_place_of_the_first() -> None:
    home = Home(ScriptedEngine())
    with editing(home) as editor:
        editor.begin()
        editor.until_loaded()
        editor.tell("workspace/didChangeConfiguration", {"settings": {"model": "another"}})
        editor.tell("workspace/didChangeConfiguration", {"settings": {"model": "another"}})
        editor.open(HALF)
        editor.ghost(1, CUT)
        assert home.opened == ["builtin", "another"]


def test_of_a_model_that_was_not_taught_to_fill_gaps_the_log_says_so() -> None:
    with editing(Home(ScriptedEngine(text="", can_infill=False))) as editor:
        editor.begin()
        editor.until_loaded()
        assert any("not trained to fill gaps" in str(message) for message in editor.told)


def test_untitled_documents_and_unknown_ones_are_answered(editor: LspEditor) -> None:
    editor.open(HALF, uri="untitled:Untitled-1")
    assert texts(editor.ghost(1, CUT, uri="untitled:Untitled-1")) == [REST]
    assert editor.ghost(1, CUT, uri="file:///never/opened.py") == []
    editor.tell("textDocument/didClose", {"textDocument": {"uri": "untitled:Untitled-1"}})
    assert editor.ghost(1, CUT, uri="untitled:Untitled-1") == []


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "file:///project/script"])
def test_what_has_no_ending_is_judged_by_the_language_that_the_editor_names(editor: LspEditor, uri: str) -> None:
    text = HALF.replace("help=", "help is ")
    editor.open(text, uri=uri, language="javascript")
    assert not editor.ghost(1, CUT, uri=uri)  # it would not parse
    editor.open(text, uri=uri, language="plaintext")
    assert texts(editor.ghost(1, CUT, uri=uri)) == [REST.replace("help=", "help is ")]


def test_a_closed_document_is_waited_for_no_more() -> None:
    with being_answered() as (engine, editor, answer):
        editor.tell("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert answer.result(PATIENCE)["items"] == []
        until(lambda: engine.closed)


def test_a_request_before_the_editor_has_begun_is_refused() -> None:
    with editing(Home(ScriptedEngine())) as editor:
        editor.open(HALF)
        with pytest.raises(LspError, match="-32002"):
            editor.ask_ghost(1, CUT).result(PATIENCE)
        editor.begin()


def test_a_request_after_shutdown_is_refused(editor: LspEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    editor.ask("shutdown").result(PATIENCE)
    with pytest.raises(LspError, match="-32600"):
        editor.ask_ghost(0, 1).result(PATIENCE)
    monkeypatch.setattr(editor, "leave", lambda: editor.tell("exit"))


def test_a_message_that_is_none_is_refused_and_the_next_one_is_answered(editor: LspEditor) -> None:
    with pytest.raises(LspError, match="-32602"):
        editor.ask("textDocument/inlineCompletion", {"textDocument": 5}).result(PATIENCE)
    with pytest.raises(LspError, match="-32601"):
        editor.ask("textDocument/nonsense", {}).result(PATIENCE)
    editor.open(HALF)
    assert texts(editor.ghost(1, CUT)) == [REST]
    assert "secret" not in json.dumps(editor.told)


# Folders


def write_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "other.py").write_text(LINE)
    return folder


def until_read(editor: LspEditor) -> None:
    with editor.news:
        assert editor.news.wait_for(lambda: any("files of" in str(message) for message in editor.told), PATIENCE)


def test_what_other_files_of_the_folder_say_is_offered(tmp_path: Path) -> None:
    first, second = write_project(tmp_path / "first"), write_project(tmp_path / "second")
    with editing(Home(ScriptedEngine(text=""))) as editor:
        editor.begin(workspaceFolders=[{"uri": first.as_uri(), "name": "first"}])
        until_read(editor)
        editor.open(LINE[:CUT], uri=(first / "new.py").as_uri())
        assert texts(editor.ghost(0, CUT, uri=(first / "new.py").as_uri())) == [REST]
        outside = (second / "new.py").as_uri()
        editor.open(LINE[:CUT], uri=outside)
        editor.tell("textDocument/didClose", {"textDocument": {"uri": (first / "new.py").as_uri()}})
        assert texts(editor.ghost(0, CUT, uri=outside)) == []
        seen = len(editor.told)
        event = {"added": [{"uri": second.as_uri(), "name": "second"}], "removed": []}
        editor.tell("workspace/didChangeWorkspaceFolders", {"event": event})
        assert "files of second" in editor.until("window/logMessage", seen)["message"]
        assert texts(editor.ghost(0, CUT, uri=outside)) == [REST]
        editor.tell("workspace/didChangeConfiguration", {"settings": {"folder": False}})
        editor.type(" ", 0, 0, uri=outside)
        assert texts(editor.ghost(0, 37, uri=outside)) == []


def test_a_file_that_was_saved_is_known_at_once(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    saved, new = tmp_path / "project" / "saved.py", tmp_path / "project" / "new.py"
    with editing(Home(ScriptedEngine(text=""))) as editor:
        editor.begin(rootUri=saved.parent.as_uri())
        until_read(editor)
        editor.open(LINE, uri=saved.as_uri())
        saved.write_text(LINE)
        editor.tell("textDocument/didSave", {"textDocument": {"uri": saved.as_uri()}})
        editor.tell("textDocument/didClose", {"textDocument": {"uri": saved.as_uri()}})
        editor.open(LINE[:CUT], uri=new.as_uri())
        until(lambda: texts(editor.ghost(0, CUT, uri=new.as_uri())) == [REST])


# What became of offers


def test_nothing_is_kept_unless_the_user_says_so(editor: LspEditor, home: Path) -> None:
    editor.open(HALF)
    editor.ghost(1, CUT)
    editor.type(REST, 1, CUT)
    editor.ghost(1, 40)
    assert not (home / "completions.jsonl").exists()


@pytest.mark.parametrize("way", ["editor", "typing"])
def test_what_was_shown_and_taken_is_kept_without_a_word_of_it(home: Path, way: str) -> None:
    with editing(Home(ScriptedEngine(text=""), stats=True)) as editor:
        editor.begin()
        editor.open(HALF)
        (item,) = editor.ghost(1, CUT)
        if way == "editor":
            command = item["command"]
            editor.ask("workspace/executeCommand", {k: command[k] for k in ("command", "arguments")}).result(PATIENCE)
        editor.type(REST, 1, CUT)
        editor.ghost(1, CUT)
    kept = (home / "completions.jsonl").read_text()
    shown, accepted = map(json.loads, kept.splitlines())
    assert shown["event"] == "shown" and shown["source"] == "file" and shown["milliseconds"] > 0
    assert accepted["event"] == "accepted" and accepted["way"] == way
    assert "parser" not in kept and "help" not in kept and URI not in kept


# The same as on the command line


def test_an_editor_is_offered_what_the_command_offers(chatapp: Run, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    file = project / "code.py"
    file.write_text(LINE.replace("help", "default") + HALF + "\nprint('end')\n")
    model = str(checkpoint())
    done = chatapp("complete", model, str(file), "--at", f"3:{CUT + 1}", "-n", "5", "--project", str(project), "--json")
    told = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    with editing(Home()) as editor:
        editor.begin(rootUri=project.as_uri(), initializationOptions={"model": model})
        editor.until_loaded()
        until_read(editor)
        editor.open(file.read_text(), uri=file.as_uri())
        assert texts(editor.ghost(2, CUT, invoked=True, uri=file.as_uri())) == told
    assert len(told) > 1


def test_the_threshold_follows_what_is_taken() -> None:
    with editing(Home(ScriptedEngine(text=""), stats=True)) as editor:
        editor.begin(initializationOptions={"threshold": 0.2})
        assert editor.server
        for _ in range(BLOCK):
            editor.open(HALF)
            assert texts(editor.ghost(1, CUT)) == [REST]
            assert editor.server.completer.threshold >= 0.2
            editor.tell("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert editor.server.completer.threshold == 0.25, "none of so many was taken"


def test_settings_that_are_not_told_are_asked_for() -> None:
    with editing(Home(ScriptedEngine(text=""))) as asking:
        asking.begin(GHOST | {"workspace": {"configuration": True}})
        asking.tell("workspace/didChangeConfiguration", {"settings": None})
        assert asking.until("workspace/configuration") == {"items": [{"section": "chatapp"}]}
