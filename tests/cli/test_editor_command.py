"""`chatapp editor`: configurations are what their editors can read, and nothing that the user has is lost."""

import json
import shutil
import subprocess
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from chatapp.cli.editor import EDITORS, read_configuration
from chatapp.cli.main import main
from chatapp.lsp.settings import ServerSettings

PACKAGING = Path(__file__).parents[2] / "packaging"
OWN = Path(__file__).parents[2] / "chatapp/lsp/editors"
AWKWARD = r'/a "b" \n ä/chatapp'


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user who has no editor yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_the_editors_are_listed_with_what_they_were_tested_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["editor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(EDITORS)
    assert [line for line in lines if "neovim" in line and "0.11.4" in line]
    assert [line for line in lines if "zed" in line and "not tested" in line]


@pytest.mark.parametrize("name", EDITORS)
@pytest.mark.usefixtures("user")
def test_every_configuration_is_printed_with_the_whole_path_of_the_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["editor", name]) == 0
    said = capsys.readouterr()
    assert "/path/to" not in said.out
    assert "chatapp" in said.out
    assert "Put this into" in said.err


@pytest.mark.parametrize("name", EDITORS)
def test_any_path_of_the_command_is_a_string_of_the_configuration(name: str) -> None:
    text = read_configuration(EDITORS[name], AWKWARD)
    assert json.dumps(AWKWARD, ensure_ascii=False) in text
    read = {"json": json.loads, "toml": tomllib.loads}.get(EDITORS[name].configuration.partition(".")[2])
    assert not read or AWKWARD in strings(read(text))


def strings(value: object) -> list[object]:
    """What stands in lists and objects, however deep."""
    if isinstance(value, dict):
        return [each for one in value.values() for each in strings(one)]
    return [each for one in value for each in strings(one)] if isinstance(value, list) else [value]


def test_a_new_file_is_written_once(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = user / ".config/nvim/plugin/chatapp.lua"
    assert main(["editor", "neovim", "--write"]) == 0
    assert "vim.lsp.config" in file.read_text()
    assert f"Wrote {file}" in capsys.readouterr().err
    assert main(["editor", "neovim", "--write"]) == 0
    assert f"{file} is already set up" in capsys.readouterr().err


def test_the_users_own_folder_of_settings_counts(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user / "elsewhere"))
    assert main(["editor", "kate", "--write"]) == 0
    assert json.loads((user / "elsewhere/kate/lspclient/settings.json").read_text())["servers"]


def test_a_file_of_lines_is_added_to_after_a_copy(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, backup = user / ".emacs", user / ".emacs.before-chatapp"
    file.write_text("(setq mine t)\n")
    assert main(["editor", "emacs", "--write"]) == 0
    assert file.read_text().startswith("(setq mine t)\n\n;; chatapp")
    assert backup.read_text() == "(setq mine t)\n"
    assert f"move {backup} back" in capsys.readouterr().err
    file.write_text("(setq other t)\n")
    assert main(["editor", "emacs", "--write"]) == 1
    assert backup.read_text() == "(setq mine t)\n"
    assert file.read_text() == "(setq other t)\n"


@pytest.mark.parametrize("name", ["kate", "neovim", "helix", "vim"])
def test_any_other_file_stays_as_it_is(user: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["editor", name, "--write"]) == 0
    (file,) = [path for path in user.rglob("*") if path.is_file()]
    file.write_text("mine")
    assert main(["editor", name, "--write"]) == 1
    assert "was not changed" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_what_cannot_be_is_refused(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["editor", "vscode", "--write"]) == 1
    assert "extension" in capsys.readouterr().err
    assert main(["editor", "--write"]) == 2
    with pytest.raises(SystemExit):
        main(["editor", "neovm"])
    assert "did you mean neovim?" in capsys.readouterr().err
    assert not list(user.iterdir())


@pytest.mark.skipif(not shutil.which("nvim"), reason="needs Neovim")
def test_a_neovim_that_is_too_old_says_so() -> None:
    old = ["nvim", "--headless", "-u", "NONE", "-c", "lua vim.lsp.config = nil", "-c", f"luafile {OWN / 'neovim.lua'}"]
    assert subprocess.run([*old, "-c", "q"], capture_output=True, timeout=60).stderr == (
        b"chatapp needs Neovim 0.11 or newer"
    )


@pytest.mark.skipif(not shutil.which("emacs"), reason="needs Emacs")
def test_an_emacs_that_is_too_old_says_so() -> None:
    load = ["-l", str(OWN / "emacs.el"), "--eval", "(princ (default-value 'python-mode-hook))"]
    old = ["emacs", "-Q", "--batch", "--eval", "(fmakunbound 'eglot-ensure)", "--eval", "(require 'python)", *load]
    done = subprocess.run(old, capture_output=True, timeout=60)
    assert b"(chatapp): needs Emacs 29" in done.stderr and b"eglot" not in done.stdout


def test_the_settings_of_vs_code_are_those_of_the_server() -> None:
    manifest = json.loads((PACKAGING / "vscode/package.json").read_text())
    settings = manifest["contributes"]["configuration"]["properties"]
    del settings["chatapp.path"]
    assert {name: facts["default"] for name, facts in settings.items()} == {
        f"chatapp.{name}": value for name, value in asdict(ServerSettings()).items()
    }
