"""`chatapp serve` as a process: it listens, answers, and ends in good order when it is told to."""

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from chatapp.settings.running import read
from support.checkpoints import Run
from support.patience import until


@pytest.mark.skipif(sys.platform == "win32", reason="there it ends with Ctrl+Break")
def test_the_server_ends_in_good_order_when_it_is_told_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chatapp", "serve", "builtin", "--port", "0"]
    environment = {**os.environ, "CHATAPP_HOME": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr
        found = re.search(r"listening on (http://127\.0\.0\.1:\d+)", process.stderr.readline())
        assert found
        body = {"prompt": "def add(", "max_tokens": 3}
        answer = httpx2.post(f"{found[1]}/v1/completions", json=body, trust_env=False, timeout=60).json()
        assert answer["model"] == "builtin" and answer["usage"]["completion_tokens"] == 3
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == 0 and "opened builtin" in said and "def add" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="there it ends with Ctrl+Break")
def test_a_server_that_no_other_program_can_find_answers_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chatapp", "serve", "--port", "0"]
    (tmp_path / "file").touch()
    environment = {**os.environ, "CHATAPP_HOME": str(tmp_path / "file" / "home")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr
        (url,) = re.findall(r"listening on (\S+);", process.stderr.readline())
        assert "cannot find this server" in process.stderr.readline()
        assert httpx2.get(f"{url}/health", trust_env=False, timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there it ends with Ctrl+Break")
def test_other_programs_find_the_first_server_again_when_the_second_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chatapp", "serve", "--port", "0"]
    environment = {**os.environ, "CHATAPP_HOME": str(tmp_path)}

    with ExitStack() as ending:

        def start() -> subprocess.Popen[bytes]:
            process = ending.enter_context(subprocess.Popen(command, env=environment))
            ending.callback(process.kill)
            until(lambda: read_pid(tmp_path) == process.pid)
            return process

        first, second = start(), start()
        closed = signal.SIGHUP  # of a terminal
        for process, left, sign, code in ((second, first.pid, signal.SIGTERM, 0), (first, None, closed, 128 + closed)):
            process.send_signal(sign)
            assert process.wait(60) == code and read_pid(tmp_path) == left


def read_pid(home: Path) -> int | None:
    """The process that other programs would ask."""
    found = read(home)
    return found.pid if found else None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "no model"),
        (["--host", "0.0.0.0"], "--keys"),
        (["--allow-origin", "*"], "name the pages"),
        (["--allow-host", "http://models.example"], "without http://"),
        (["--allow-host", "models.example:80"], "without http://"),
        (["--tls-cert", "nothing.pem"], "--tls-key"),
        (["--tls-cert", "nothing.pem", "--tls-key", "nothing.pem"], "nothing.pem"),
        (["--tls-cert", __file__, "--tls-key", __file__], "in PEM"),
        (["--host", "localhost:80"], "with --port"),
        (["--keys", "nothing.txt"], "nothing.txt"),
        (["--port", "70000"], "not a port"),
        (["--timeout", "soon"], "not a duration"),
        (["--memory", "much"], "not a size"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(chatapp: Run, arguments: list[str], said: str) -> None:
    done = chatapp("serve", *arguments)
    assert done.returncode in (1, 2) and said in done.stderr and done.stderr.startswith("Error: ")


def test_an_address_that_is_not_here_is_not_taken_for_a_port_in_use(chatapp: Run, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("k" * 16)
    done = chatapp("serve", "--host", "192.0.2.1", "--keys", str(tmp_path / "keys"))
    assert done.returncode == 1 and done.stderr.startswith("Error: ") and "choose another --host" in done.stderr
