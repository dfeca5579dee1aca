"""Nothing but pull, search and login touches the network, by what Python tells and by what the system is asked."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import pytest

from chatapp.cli import main
from support import system_calls
from support.checkpoints import ROOT, MakeCheckpoint, Run, write_tokenizer
from support.loopback_hub import LoopbackHub

ALIVE = 15.0
"""Seconds for which a process that has answered is watched: ONNX Runtime, unless told, reports after ten."""
COMMANDS: list[tuple[str, ...]] = [
    ("--help",),
    ("run", "builtin", "import os", "--max-tokens", "3"),
    ("run", "CHECKPOINT", "hello", "--max-tokens", "3", "--precision", "f32"),
    ("import", "ONNX", "--name", "onnx-export"),
    ("run", "onnx-export", "hello", "--max-tokens", "3"),
    ("import", "OPENVINO", "--name", "openvino-export"),
    ("run", "openvino-export", "hello", "--max-tokens", "3", "--backend", "openvino"),
    ("complete", "--at", "1:1"),
    ("list",),
    ("remote", "list"),
    ("mcp", "list"),
    ("service", "install", "--dry-run"),
    ("ls", "--cache"),
    ("show", "builtin"),
    ("devices",),
    ("verify", "CHECKPOINT"),
    ("verify", "CHECKPOINT", "--backend", "openvino"),
    ("export", "openvino", "CHECKPOINT", "EXPORT", "--check"),
    ("bench", "CHECKPOINT", "--tokens", "4"),
    ("cp", "onnx-export", "copy"),
    ("du",),
    ("gc",),
    ("cache",),
    ("rm", "CHECKPOINT"),
    ("search",),
    ("sessions", "ls"),
    ("sessions", "import", "CONVERSATION"),
    ("sessions", "show"),
    ("sessions", "rename", "1", "another"),
    ("sessions", "export", "--all"),
    ("sessions", "rm", "--all", "--now"),
    ("editor", "vim"),
    ("completion", "bash"),
    ("version",),
    ("chat", "builtin", "--plain"),
    ("run", "builtin", "import os", "--max-tokens", "3", "--offline"),
]
FAILING: list[tuple[str, ...]] = [
    ("run", "gpt2", "hello"),
    ("run", "org/name", "hello"),
    ("sessions", "search", "nothing"),
    ("sessions", "undo"),
    ("stats", "completion"),
    ("replay", "1"),
    ("deploy", "ray", "builtin", "--address", "127.0.0.1:1", "--no-gateway"),
]
"""What ends with 1, and asks nobody either."""
SERVER = ("serve", "builtin", "--port", "0")
"""What listens, on this machine only."""
MEASURING: list[tuple[str, ...]] = [("why", "CHECKPOINT")]
"""What starts processes of its own, one for each backend."""
ASKING: list[tuple[str, ...]] = [("search", "tiny"), ("login",), ("pull", "org/tiny", "--precision", "f32")]
"""What asks the Hub, and nobody else."""
TALKS: dict[str, tuple[str, tuple[str, ...], bytes, bytes, bytes]] = {
    "screen": ("onnx", ("--model", "CHECKPOINT"), b"Commands", b"hello\r", b"\x11"),
    "loop-of-onnx": ("", ("run", "ONNX", "--max-tokens", "3"), b">>> ", b"hello\r", b"\x04"),
    "loop-of-openvino": ("", ("run", "OPENVINO", "--max-tokens", "3"), b">>> ", b"hello\r", b"\x04"),
    "plain-lines": (
        "openvino",
        ("chat", "builtin", "--plain"),
        b"You: ",
        b"/set parameter num_predict 3\rhello\r",
        b"\x04",
    ),
}
"""What stays open: its backend, its words, what it shows when ready, what is typed then, and the key that leaves."""
EDITOR = ("lsp",)
"""What an editor starts and talks to."""
SYSTEM = Path("/dev"), Path("/proc")
REPORTING = """\
mkdir("HOME/.cache/Microsoft", 0700) = 0
mkdir("/usr/lib/nowhere", 0700) = -1 EROFS (Read-only file system)
openat(6<HOME/.cache/Microsoft>, "deviceid.tmp", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600) = 7
linkat(6<HOME/.cache/Microsoft>, "deviceid.tmp", 6<HOME/.cache/Microsoft>, "deviceid", 0) = 0
openat(AT_FDCWD</work>, "/etc/resolv.conf", O_RDONLY|O_CLOEXEC) = 8</etc/resolv.conf>
connect(8<socket:[24736]>, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT (No such file)
connect(8<socket:[24743]>, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.255.255.53")}, 16) = 0
sendto(8<socket:[24743]>, "}\\26\\1\\0\\0\\6mobile\\6events\\4data\\t"..., 50, MSG_NOSIGNAL, NULL, 0) = 50
connect(9<TCPv6:[7]>, {sa_family=AF_INET6, sin6_port=htons(443), sin6_flowinfo=htonl(0), \
inet_pton(AF_INET6, "2001:db8::7", &sin6_addr), sin6_scope_id=0}, 28) = -1 ENETUNREACH (Network is unreachable)
"""
"""What ONNX Runtime asks of the system unless it is silenced, as strace writes it, and an address more."""
SILENCING = ("CI", "TF_BUILD", "JENKINS_URL", "ORT_DISABLE_TELEMETRY")
"""Variables with which runtimes are silent by themselves."""
RUNTIMES = re.compile(r"onnxruntime_pybind11_state|_pyopenvino")
LINUX = sys.platform == "linux"


class User:
    """Somebody whose home is empty, and what a process does there."""

    def __init__(self, folder: Path, **environment: str):
        self.folder, self.calls, self.notes = folder, folder / "calls", folder / "notes"
        self.places = {"HOME": folder / "user", "TMPDIR": folder / "temporary", "CHATAPP_HOME": folder / "home"}
        self.places |= {f"XDG_{name}_HOME": folder / "user" for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        for place in self.places.values():
            place.mkdir(parents=True, exist_ok=True)
        self.notes.touch()
        kept = {name: value for name, value in os.environ.items() if name not in SILENCING}
        kept |= {"PYTHONDONTWRITEBYTECODE": "1", "TERM": "xterm-256color"}
        self.environment = kept | {name: str(place) for name, place in self.places.items()} | environment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def start(self, *arguments: str, stdin: int, stdout: int | IO[bytes]) -> None:
        """Start Python with these arguments; on Linux all that it asks of the system is noted."""
        command = [*(system_calls.strace(self.calls) if LINUX else []), sys.executable, *arguments]
        how: dict[str, Any] = dict(stderr=subprocess.STDOUT, env=self.environment, cwd=ROOT, start_new_session=True)
        self.process = subprocess.Popen(command, stdin=stdin, stdout=stdout, **how)

    @property
    def loaded(self) -> bool:
        """Whether a runtime's library has been opened, as far as one can tell."""
        return not LINUX or any(RUNTIMES.search(call) for call in system_calls.read(self.calls))

    def trouble(self, *hosts: str) -> list[str]:
        """What was done that should not be; only `hosts` may be reached."""
        left = [f"left {path}" for path in (self.folder / "user").rglob("*")]
        noted = self.notes.read_text().splitlines()
        if not LINUX:
            return noted + left
        calls, own = system_calls.read(self.calls), (self.places["CHATAPP_HOME"], self.places["TMPDIR"], self.notes)
        reached = system_calls.reached(calls) - set(hosts)
        written = {path for path in system_calls.written(calls) if not any(map(path.is_relative_to, (*own, *SYSTEM)))}
        return noted + left + [f"reached {name}" for name in reached] + [f"wrote {path}" for path in written]


class Batch:
    """Commands one after the other in one process, which then stays until it is told to leave."""

    def __init__(self, user: User, commands: list[tuple[str, ...]]):
        self.user, self.commands = user, commands
        self.output, listed = user.folder / "output", user.folder / "commands.json"
        listed.write_text(json.dumps(commands))
        with self.output.open("wb") as output:
            script = str(ROOT / "tests" / "support" / "commands_in_turn.py")
            user.start(script, str(listed), stdin=subprocess.PIPE, stdout=output)

    @property
    def codes(self) -> list[int]:
        """The exit codes, once all commands are through."""
        assert self.user.process.poll() is None, self.output.read_text(errors="replace")
        last = self.output.read_text(errors="replace").rstrip().rpartition("\n")[2]
        with suppress(ValueError):  # it is being written, or a command's
            if isinstance(codes := json.loads(last), list) and len(codes) == len(self.commands):
                return codes
        return []

    def leave(self) -> str:
        """End it; what went wrong."""
        codes = self.codes
        self.user.process.communicate(timeout=60)
        wrong = [words for words, code in zip(self.commands, codes, strict=True) if code != (words in FAILING)]
        return f"{wrong}: {self.output.read_text(errors='replace')}" if wrong else ""


class Editor:
    """The language server, which is asked to complete a line."""

    def __init__(self, user: User):
        self.user, self.output = user, user.folder / "output"
        with self.output.open("wb") as output:
            user.start("-m", "chatapp", *EDITOR, stdin=subprocess.PIPE, stdout=output)
        document, place = {"uri": "file:///nowhere/a.py"}, {"line": 1, "character": 4}
        root = {"processId": None, "rootUri": (ROOT / "themes").as_uri()}
        self.send("initialize", 1, **root, capabilities={"textDocument": {"inlineCompletion": {}}})
        self.send("initialized")
        text = {"languageId": "python", "version": 1, "text": "def add(a, b):\n    "}
        self.send("textDocument/didOpen", textDocument=document | text)
        self.send("textDocument/inlineCompletion", 2, textDocument=document, position=place, context={"triggerKind": 1})

    def send(self, method: str, number: int | None = None, **parameters: object) -> None:
        """Send a request, or without a number a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": parameters} | ({"id": number} if number else {})
        body = json.dumps(message).encode()
        assert self.user.process.stdin
        self.user.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.user.process.stdin.flush()

    def answered(self, number: int) -> bool:
        """Whether a request has its result."""
        told = self.output.read_bytes().replace(b" ", b"")
        return any(b'"id":%d' % number in part and b'"result"' in part for part in told.split(b"Content-Length"))

    def leave(self) -> int:
        """End it as editors do, and tell its exit code."""
        self.send("shutdown", 3)
        until(partial(self.answered, 3))
        self.send("exit")
        self.user.process.communicate(timeout=60)
        return self.user.process.returncode


class Talk:
    """A command in a terminal, which is read until it ends."""

    def __init__(self, user: User, arguments: tuple[str, ...]):
        import fcntl
        import pty
        import termios

        self.user, self.seen = user, b""
        self.terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        user.start("-m", "chatapp", *arguments, stdin=theirs, stdout=theirs)
        os.close(theirs)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        """Take what is written to the terminal."""
        with suppress(OSError):  # of Linux, when nobody has it open any more
            while got := os.read(self.terminal, 1 << 16):
                self.seen += got

    def shows(self, text: bytes) -> bool:
        """Whether a text has been written to it."""
        assert self.user.process.poll() is None, self.seen
        return text in self.seen

    def leave(self, key: bytes) -> int:
        """Press the key that ends it, until it does; the exit code."""
        process = self.user.process

        def ended() -> bool:
            with suppress(OSError):  # of a terminal that nobody has open any more
                os.write(self.terminal, key)
            return process.poll() is not None

        until(ended)
        os.close(self.terminal)
        return int(process.returncode)


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds: all processes begin at once, on whatever cores there are."""
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
def test_no_command_no_screen_and_no_loop_reaches_anybody_or_leaves_anything_in_a_home(
    tmp_path: Path, checkpoint: MakeCheckpoint, loopback: LoopbackHub
) -> None:
    places = {"CHECKPOINT": str(checkpoint("given", chats=True)), "CONVERSATION": str(tmp_path / "ollama.json")}
    Path(places["CONVERSATION"]).write_text(json.dumps([{"role": "user", "content": "Why?"}]))
    for kind in ("onnx", "openvino"):
        places[kind.upper()] = str(shutil.copytree(ROOT / "tests" / "golden_exports" / kind, tmp_path / kind))
        write_tokenizer(tmp_path / kind, 96)
    places["EXPORT"] = str(tmp_path / "commands" / "home" / "exported")
    loopback.publish("org/tiny", checkpoint("tiny"))

    def placed(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(places.get(word, word) for word in words)

    with ExitStack() as started:

        def user(name: str, backend: str = "onnx") -> User:
            noting = {"NETWORK_NOTES": str(tmp_path / name / "notes")} if name != "asking" else {}
            keeping = {"CHATAPP_BACKEND": backend, "HF_HOME": str(tmp_path / name / "home" / "huggingface")}
            return started.enter_context(User(tmp_path / name, **keeping, **noting))

        batches = {
            "commands": Batch(user("commands"), [placed(words) for words in (*COMMANDS, *FAILING)]),
            "measuring": Batch(user("measuring", backend=""), [placed(words) for words in MEASURING]),
            "asking": Batch(user("asking"), ASKING),
        }
        editor = Editor(user("editor"))
        talks = {name: Talk(user(name, backend), placed(words)) for name, (backend, words, *_) in TALKS.items()}
        for name, (_, _, ready, text, _) in TALKS.items():
            until(partial(talks[name].shows, ready))
            os.write(talks[name].terminal, text)
        until(lambda: all(batch.codes for batch in batches.values()))
        until(lambda: all(talk.user.loaded for talk in talks.values()))
        until(lambda: editor.user.loaded and editor.answered(2))
        if LINUX:
            time.sleep(ALIVE)
        for name, (*_, key) in TALKS.items():
            assert talks[name].leave(key) == 0, talks[name].seen
        assert editor.leave() == 0, editor.output.read_bytes()
        assert not [complaint for batch in batches.values() if (complaint := batch.leave())]
    hub = loopback.url.partition("//")[2]
    trouble = [("editor", *editor.user.trouble())]
    trouble += [(name, *talk.user.trouble()) for name, talk in talks.items()]
    trouble += [(name, *batch.user.trouble(*[hub] * (name == "asking"))) for name, batch in batches.items()]
    assert not [found for found in trouble if len(found) > 1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_the_server_waits_for_others_and_reaches_nobody(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file, User(tmp_path / "serving", CHATAPP_BACKEND="onnx") as user:
        user.start("-m", "chatapp", *SERVER, stdin=subprocess.DEVNULL, stdout=file)
        until(lambda: b"opened builtin" in output.read_bytes())
        os.killpg(user.process.pid, signal.SIGTERM)
        user.process.wait(60)
    assert not user.trouble("127.0.0.1:0"), output.read_text()  # where it listens


def test_every_command_is_watched() -> None:
    tried = {words[0] for words in (*COMMANDS, *FAILING, *MEASURING, *ASKING, EDITOR, SERVER)}
    tried |= {"desktop"}  # a window is another program: tests/desktop watches its bridge
    assert tried == {*main.COMMANDS, *main.ALIASES, "--help"}


@pytest.mark.process
def test_the_note_is_made_where_the_network_is_touched(
    chatapp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETWORK_NOTES", str(tmp_path / "notes"))
    assert chatapp("search", "tiny").returncode == 1
    assert "import huggingface_hub" in (tmp_path / "notes").read_text()


def test_what_a_runtime_does_that_is_not_silenced_is_seen_in_its_calls() -> None:
    calls = REPORTING.splitlines()
    assert system_calls.reached(calls) == {system_calls.RESOLVER, "10.255.255.53:53", "2001:db8::7:443"}
    folder = Path("HOME/.cache/Microsoft")
    assert system_calls.written(calls) == {folder, folder / "deviceid.tmp", folder / "deviceid"}


@pytest.mark.skipif(not LINUX, reason="strace is of Linux")
def test_a_process_that_writes_into_a_home_and_looks_up_a_name_is_caught(tmp_path: Path) -> None:
    code = "import os, socket\nopen(os.environ['HOME'] + '/id', 'w')\n"
    code += "socket.socket(type=socket.SOCK_DGRAM).connect(('127.0.0.1', 53))"
    with User(tmp_path / "careless") as user:
        user.start("-S", "-c", code, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert user.process.wait(60) == 0
    home = user.places["HOME"]
    assert user.trouble() == [f"left {home}/id", "reached 127.0.0.1:53", f"wrote {home}/id"]
