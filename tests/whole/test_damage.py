"""Whatever bytes a file has that others wrote, or a disk changed: one line, or what can be read of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from drills.damage import drill_files, drill_histories
from drills.hostile import drill as hostile_models

from chatapp.cli.main import main
from chatapp.history import History
from chatapp.models import suggestion
from chatapp.models.jobs import read_waiting
from chatapp.placement import record
from chatapp.settings import keymap, presets, settings
from chatapp.workspace import Workspace
from model_store import UnsupportedCheckpoint
from model_store.gguf import open_gguf
from support.chatgpt_exports import chatgpt, node
from support.conversations import bring_in, said
from support.gguf_files import F32, KEYS, gguf
from themes import collect

DEEP = ["x = " + "[" * 5000, "x." * 3000 + "x = 1", "x = " + "[" * 300 + "]" * 300, "x = " + "9" * 5000]
"""Five thousand brackets, three thousand tables, a list that can be read but not shown, a number of 5,000 digits."""


@pytest.mark.parametrize("text", DEEP)
def test_settings_presets_keys_and_themes_that_are_nested_too_deep_are_one_line(
    home: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "themes").mkdir(parents=True)
    for name in ("settings.toml", "presets.toml", "keys.toml", "themes/mine.toml"):
        (home / name).write_text(text)
    assert main(["list"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: cannot read the settings in ") and told.count("\n") == 1
    with pytest.raises(settings.SettingsError, match="cannot save the theme"):
        Workspace().choose_theme("dusk")
    (home / "settings.toml").unlink()
    assert main(["run", "builtin", "x", "--preset", "mine"]) == 1
    assert capsys.readouterr().err.startswith("Error: cannot read the presets in ")
    with pytest.raises(presets.PresetError):
        presets.save(home / "presets.toml", "mine", {"temperature": 0.5})
    assert keymap.read(settings.home() / "keys.toml", []).complaints[0].startswith("cannot read the keys in ")
    assert len(collect(home / "themes")[1]) == 1


@pytest.mark.parametrize("count", ["two", [3, 4], ["x"], float("nan"), float("inf"), [float("inf")]])
def test_a_number_of_parts_that_is_none_is_refused_in_one_line(tmp_path: Path, count: object) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf({**KEYS, "split.count": count}, {"token_embd.weight": F32}))
    with pytest.raises(UnsupportedCheckpoint, match=r"x\.gguf cannot be used: .*split\.count"):
        open_gguf(path)


@pytest.mark.parametrize("end", [["x"], {}, 5, True, None, "nowhere"])
def test_a_conversation_of_chatgpt_that_ends_nowhere_ends_with_its_last_message(history: History, end: object) -> None:
    content = chatgpt(a=node(None, "user", "word"), b=node("a", "assistant", "words"))
    bring_in(history, [{**content[0], "current_node": end}])
    assert said(history, 1) == [("user", "word"), ("assistant", "words")]


READERS: dict[str, Callable[[Path], object]] = {
    "jobs": read_waiting,
    "offer": suggestion.is_answered,
    "first use": lambda path: record.read_first_use(path.rename(path.with_name(record.FIRST_USE)).parent),
    "calibration": lambda path: record.read(path.rename(path.with_name(record.RECORD)).parent, {}),
}


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[" * 100_000, b"5", b"[1]", b'{"pulls": 5, "answered": 1e999, "times": [], "placement": {}}']
    + [b'{"pulls": "abc", "machine": {}, "measured": [{"placement": 5}], "placement": [], "answered": {}}'],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_note_of_our_own_counts_as_none(tmp_path: Path, reader: str, content: bytes) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(content)
    assert READERS[reader](path) in ([], False, (None, 0))


def test_damaged_files_of_every_kind_end_no_command_with_a_traceback(tmp_path: Path, vocabulary: str) -> None:
    report = drill_files(63, 12, tmp_path / "files", vocabulary)
    assert report.endswith("; 0 failures"), report


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the drill forks")
def test_generated_templates_and_tokenizers_end_with_a_line_or_a_result(tmp_path: Path) -> None:
    report = hostile_models(tmp_path, 6, seed=3)
    assert report.endswith("; 0 failures"), report


def test_damaged_histories_end_no_command_with_a_traceback() -> None:
    report = drill_histories(4, 3)
    assert report.endswith("; 0 failures"), report
