"""`chatapp export`: a folder that is whole or not there, and refusals before any work."""

import re
import sys
from pathlib import Path

import pytest

from chatapp.deploy import exporting
from model_store import Progress
from model_store.exports import Finding, Source, openvino
from support.checkpoints import ROOT, MakeCheckpoint, Run


def test_an_export_is_written_checked_and_told(chatapp: Run, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = tmp_path / "below" / "out"
    done = chatapp("export", "openvino", str(checkpoint(chats=True)), str(folder), "--precision", "f32", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *rest = done.stdout.splitlines()
    assert first == f"tiny is in {folder}"
    assert second.startswith("ok     logits of 24 tokens: off by ")
    assert all(
        line.startswith(("ok     ", "left   openvino-genai: openvino or openvino-tokenizers is not installed"))
        for line in rest
    )
    written = {path.name for path in folder.iterdir()}
    assert {"openvino_model.xml", "openvino_model.bin", "config.json", "tokenizer.json"} <= written
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("target", exporting.TARGETS)
def test_a_folder_with_something_in_it_is_refused_and_left_alone(chatapp: Run, tmp_path: Path, target: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    done = chatapp("export", target, "builtin", str(tmp_path / "mine"))
    assert done.returncode == 1
    assert done.stderr == f"Error: {tmp_path / 'mine'} is not empty; choose a new folder\n"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


class Wrong:
    """A target whose exports are never right."""

    SUMMARY = "nothing of use"
    Options = openvino.Options

    def refuse(self, source: Source, options: openvino.Options) -> None: ...

    def write(
        self, source: Source, folder: Path, options: openvino.Options, on_progress: Progress | None = None
    ) -> None:
        (folder / "file").write_text(source.model.name)

    def check(self, source: Source, folder: Path, options: openvino.Options) -> list[Finding]:
        return [
            Finding("the file", (folder / "file").read_text() == "x", "another name"),
            Finding("the rest", None, "nobody knows"),
        ]


def test_a_check_that_fails_ends_with_1(chatapp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(exporting.TARGETS, "wrong", "wrong_target")
    monkeypatch.setitem(sys.modules, "wrong_target", Wrong())
    done = chatapp("export", "wrong", "builtin", str(tmp_path / "out"), "--check")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["FAILED the file: another name", "left   the rest: nobody knows"]


def test_what_fails_half_way_leaves_nothing(chatapp: Run, checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-5000])
    done = chatapp("export", "openvino", str(folder), str(tmp_path / "there" / "out"))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert not list(tmp_path.glob("there/*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing", "builtin", "out"), "unknown value 'nothing'"),
        (("openvino", "builtin", "out", "--precision", "int3"), "unknown value 'int3'"),
        (("openvino", "builtin", "out", "--cores", "4"), "unknown option --cores"),
        (("openvino", "builtin"), "the following arguments are required: DIR"),
    ],
)
def test_what_is_not_known_is_refused_by_name(chatapp: Run, arguments: tuple[str, ...], said: str) -> None:
    done = chatapp("export", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("target", exporting.TARGETS)
def test_the_manual_tells_every_target_and_its_options(chatapp: Run, target: str) -> None:
    manual = (ROOT / "docs" / "commands.md").read_text("utf-8")
    options = set(re.findall(r"--[a-z][a-z-]*", chatapp("export", target, "--help").stdout)) - {"--help"}
    assert f"`chatapp export {target}" in manual
    assert not [option for option in options if option not in manual]
