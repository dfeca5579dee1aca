"""The service that starts the server: its text for three systems, read back by what reads such texts."""

import os
import plistlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chatapp.cli.service import Service, describe, install, remove
from chatapp.settings.running import announce
from chatapp.text.errors import InputError
from support.checkpoints import Run
from support.scripted_engine import ScriptedEngine
from support.served import serving
from support.stand_in_home import Home

ODD = ["builtin", "--keys", 'a "b" $HOME %n\\c <&>.txt']
SCHEMA = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="without systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    service = describe("linux", tmp_path, tmp_path / 'home "%d" $x', ODD)
    service.path.parent.mkdir(parents=True, exist_ok=True)
    service.path.write_text(service.text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(service.path)],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert str(service.path) not in done.stderr and "chatapp" not in done.stderr, done.stderr


def test_the_unit_takes_words_as_they_are(tmp_path: Path) -> None:
    text = describe("linux", tmp_path, tmp_path / "a b", ODD).text
    assert f'ExecStart="{sys.executable}" "-m" "chatapp" "serve" "builtin" "--keys" "a \\"b\\" $$HOME %%n' in text
    assert f'Environment="CHATAPP_HOME={tmp_path}/a b"' in text


def test_launchd_reads_back_what_was_meant(tmp_path: Path) -> None:
    service = describe("darwin", tmp_path, tmp_path / "home", ODD)
    facts = plistlib.loads(service.text.encode())
    assert facts["ProgramArguments"] == [sys.executable, "-m", "chatapp", "serve", *ODD]
    assert facts["EnvironmentVariables"] == {"CHATAPP_HOME": str(tmp_path / "home")}
    assert service.path == tmp_path / "Library" / "LaunchAgents" / f"{facts['Label']}.plist"


def test_windows_reads_back_what_was_meant(tmp_path: Path) -> None:
    service = describe("win32", tmp_path, tmp_path / "home", ODD)
    service.path.parent.mkdir()
    service.path.write_text(service.text, service.encoding)
    tree = ElementTree.parse(service.path)
    program, words = (tree.findtext(f".//{SCHEMA}{name}") for name in ("Command", "Arguments"))
    assert program == sys.executable and words and words.startswith('-c "import os, runpy, sys; ')
    code = words[4:-1].replace('\\"', '"')
    seen: dict[str, object] = {}
    exec(code.partition("; runpy.")[0].replace("os.environ[", "seen[").replace("sys.argv[1:] =", "seen['argv'] ="),
         {"seen": seen})  # fmt: skip
    assert seen["CHATAPP_HOME"] == str(tmp_path / "home") and seen["argv"] == ["serve", *ODD]


@pytest.mark.parametrize("words", [["builtin", "--port", "8012"], ["--port", "8012", "--", "builtin"]])
def test_what_would_be_told_is_shown_and_nothing_is_done(chatapp: Run, words: list[str]) -> None:
    done = chatapp("service", "install", "--dry-run", "--", *words)
    assert done.returncode == 0 and "serve" in done.stdout and "8012" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["service"], "no action given; choose from install, status, remove"),
        (["service", "start"], "no action given; choose from install, status, remove"),
        (["service", "status", "x"], "unexpected argument"),
        (["service", "install", "--dry-run", "--", "--prot", "1"], "unknown option --prot"),
        (["service", "install", "--dry-run", "--", "--port", "x"], "is not a port"),
        (["service", "install", "--dry-run", "--", "--host", "0.0.0.0"], "add --keys"),
    ],
)
def test_what_cannot_be_meant_is_refused(chatapp: Run, words: list[str], said: str) -> None:
    done = chatapp(*words)
    assert done.returncode == 2 and said in done.stderr


def test_a_model_that_is_not_here_gets_no_service(chatapp: Run) -> None:
    done = chatapp("service", "install", "--dry-run", "nobody")
    assert done.returncode == 1 and "no model" in done.stderr


def test_a_service_is_written_started_ended_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"

    def note(word: str) -> list[str]:
        return [sys.executable, "-c", f"open({str(log)!r}, 'a').write({word!r})"]

    service = Service(tmp_path / "a" / "b", "text", [note("1"), note("2")], [note("3")])
    install(service)
    assert service.path.read_text() == "text" and log.read_text() == "12"
    remove(service)
    assert not service.path.exists() and log.read_text() == "123"
    with pytest.raises(InputError, match="no service is installed"):
        remove(service)
    fails = [sys.executable, "-c", "import sys; sys.exit('no bus')"]
    with pytest.raises(InputError, match=r"did not start it \(no bus\); run: .+ && [^\n]+$"):
        install(replace(service, start=[fails, note("4")]))
    with pytest.raises(InputError, match="launchctl-of-nobody not found"):
        install(replace(service, start=[["launchctl-of-nobody"]]))
    assert log.read_text() == "123"


def test_the_status_tells_whether_a_server_runs(
    chatapp: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = chatapp("service", "status")
    assert done.returncode == 1 and "not installed" in done.stdout and "not running" in done.stdout
    announce(4321, "onnx", None, None).write(home)
    done = chatapp("service", "status")
    assert done.returncode == 0 and f"process {os.getpid()}, http://127.0.0.1:4321, onnx" in done.stdout
    assert "memory" not in done.stdout
    with serving(Home(ScriptedEngine("y"))) as served:
        announce(served.port, None, None, None).write(home)
        assert "in memory: no model" in chatapp("service", "status").stdout
        served.post("/api/generate", model="builtin")
        assert "in memory: builtin (" in chatapp("service", "status").stdout
