"""chatapp.text.editor: a text goes to an editor and comes back, or nothing changes."""

import os
import stat
import sys
from pathlib import Path

import pytest

from chatapp.text.editor import edit
from chatapp.text.errors import InputError


def editor(tmp_path: Path, code: str) -> dict[str, str]:
    """An environment whose editor runs this code with the file's path in `path`."""
    script = tmp_path / "an editor.py"
    script.write_text(f"import sys, os, pathlib\npath = pathlib.Path(sys.argv[-1])\n{code}\n")
    return {"VISUAL": f"{sys.executable} '{script}' --wait", "EDITOR": "not this one"}


def test_the_text_comes_back_as_it_was_written(tmp_path: Path) -> None:
    found = editor(tmp_path, "path.write_text(path.read_text(encoding='utf-8') + ' näive 🙂\\n', encoding='utf-8')")
    assert edit("one\ntwo", found) == "one\ntwo näive 🙂"


def test_an_untouched_text_stays_to_the_letter(tmp_path: Path) -> None:
    for text in ("", "one", "one\n", "one\r\ntwo\n\n"):
        assert edit(text, editor(tmp_path, "pass")) == text.replace("\r\n", "\n")


def test_the_file_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    note = tmp_path / "note"
    found = editor(tmp_path, f"open({str(note)!r}, 'w').write(f'{{path}} {{path.parent.stat().st_mode}}')")
    edit("secret", found)
    path, mode = note.read_text().split()
    assert not Path(path).parent.exists()
    assert stat.S_IMODE(int(mode)) == 0o700


def test_what_is_no_utf8_is_not_lost(tmp_path: Path) -> None:
    assert edit("x", editor(tmp_path, "path.write_bytes(b'caf\\xe9')")) == "caf\ufffd"


@pytest.mark.parametrize(
    ("code", "message"),
    [("sys.exit(3)", "exited with code 3; your text is unchanged"), ("os.remove(path)", "saved no text")],
)
def test_an_editor_that_fails_is_named(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        edit("text", editor(tmp_path, code))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"VISUAL": "no-such-editor -w"}, "editor 'no-such-editor' not found; check VISUAL"),
        ({"EDITOR": "vim 'unclosed"}, 'EDITOR is not a command: "vim \'unclosed" \\(no closing quotation\\)'),
    ],
)
def test_an_editor_that_is_not_there_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        edit("text", environment)


def test_a_program_that_does_not_start_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    os.chmod(broken, 0o755)
    with pytest.raises(InputError, match="cannot start .*broken: no such file or directory"):
        edit("text", {"EDITOR": str(broken)})


def test_without_a_choice_the_usual_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no editor; set VISUAL or EDITOR"):
        edit("text", {})
    (tmp_path / "vi").write_text(f'#!{sys.executable}\nimport sys\nopen(sys.argv[1], "w").write("by vi")\n')
    os.chmod(tmp_path / "vi", 0o755)
    assert edit("text", {}) == "by vi"
