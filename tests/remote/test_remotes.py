"""Servers by name and address: their file, their keys, what is refused; and the commands that use them."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from chatapp.cli import remote as command
from chatapp.cli.main import parse
from chatapp.models.catalogue import describe_remotes
from chatapp.remote import remotes
from chatapp.remote.address import Remote, parse_url, split_model
from chatapp.remote.errors import RemoteError
from chatapp.remote.opening import open_remote
from chatapp.settings.offline import VARIABLE, Offline
from chatapp.text.errors import InputError
from chatapp.workspace import Opened, Workspace
from support.checkpoints import MakeCheckpoint, Run
from support.recorded_streams import TEXT, chunk, serve
from support.remote_server import Recorded
from support.scripted_engine import ScriptedEngine

KEY = "sk-0123456789abcdef"
ELSEWHERE = "https://models.example"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama3.2@desk", ("llama3.2", "desk")),
        ("@desk", ("", "desk")),
        ("org/name@http://127.0.0.1:8000/v1", ("org/name", "http://127.0.0.1:8000/v1")),
        ("@https://models.example", ("", "https://models.example")),
        ("builtin", None),
        ("a@b/c", None),
        ("a@", None),
    ],
)
def test_a_model_of_a_server_is_told_by_its_name(name: str, expected: tuple[str, str] | None) -> None:
    assert split_model(name) == expected


def test_a_folder_with_such_a_name_is_a_model_that_is_here(checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    folder = checkpoint("tiny").rename(tmp_path / "tiny@desk")
    assert Workspace().split_remote(str(folder)) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000", "is not a URL"),
        ("ftp://a", "is not a URL"),
        ("http://", "is not a URL"),
        ("http://a:99999", "is not a URL"),
        ("http://a b", "is not a URL"),
        ("http://me:secret@a", "must not contain a user"),
        ("http://a/v1?key=secret", "must not contain \\?"),
    ],
)
def test_what_is_no_address_is_refused(url: str, said: str) -> None:
    with pytest.raises(RemoteError, match=said):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:1", True),
        ("http://127.3.2.1", True),
        ("http://[::1]:8", True),
        ("http://192.168.1.2", False),
        ("http://localhost.example", False),
        ("http://127.0.0.1.example", False),
        ("http://0.0.0.0", False),
    ],
)
def test_only_this_machine_is_here(url: str, here: bool) -> None:
    assert Remote("x", url).is_here == here


def test_a_server_is_kept_with_its_key_in_a_file_for_its_user_alone(home: Path) -> None:
    one = Remote("desk", ELSEWHERE, "openai", ("a", "b"), context=4096)
    remotes.add(home, one, KEY)
    remotes.add(home, Remote("other", "http://localhost:1"))
    assert remotes.read(home) == {"desk": one, "other": Remote("other", "http://localhost:1")}
    assert KEY not in (home / "remotes.toml").read_text()
    assert remotes.read_key(home, one) == KEY
    if os.name != "nt":
        path = remotes.key_file(home, "desk")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        path.chmod(0o640)
        with pytest.raises(RemoteError, match="chmod 600"):
            remotes.read_key(home, one)
    with pytest.raises(RemoteError, match="is not a saved server"):
        remotes.remove(home, ELSEWHERE)
    remotes.remove(home, "desk")
    assert not remotes.key_file(home, "desk").exists() and list(remotes.read(home)) == ["other"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("url = 'http://a'", "is not a server"),
        ("[desk]\nurl = 'http://a'\nkey = 'x'", "unknown line 'key'"),
        ("[desk]\nurl = 5", "must be str"),
        ("[desk]\nurl = 'http://a'\nmodels = [1]", "must be list"),
        ("[desk]\nurl = 'http://a'\ncontext = true", "must be int"),
        ("[desk]\nurl = 'http://a'\nprotocol = 'soap'", "unknown protocol 'soap'"),
        ("[desk]\n", "is not a URL"),
        ("[desk", "cannot read"),
    ],
)
def test_a_line_that_cannot_be_is_refused_by_its_name(text: str, said: str, home: Path) -> None:
    home.mkdir()
    (home / "remotes.toml").write_text(text)
    with pytest.raises(RemoteError, match=said):
        remotes.read(home)


def test_a_server_that_has_no_name_is_told_with_those_that_have(home: Path) -> None:
    remotes.add(home, Remote("desk", ELSEWHERE))
    with pytest.raises(RemoteError, match="did you mean desk"):
        remotes.find(home, "dsk")


def test_a_key_comes_from_the_environment_and_never_goes_where_others_can_read_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = Remote("desk", ELSEWHERE, key_variable="DESK_KEY")
    with pytest.raises(RemoteError, match="DESK_KEY, which is not set"):
        remotes.read_key(home, named)
    monkeypatch.setenv("DESK_KEY", KEY)
    assert remotes.read_key(home, named) == KEY
    with pytest.raises(RemoteError, match="not encrypted"):
        remotes.read_key(home, Remote("desk", "http://models.example", key_variable="DESK_KEY"))
    monkeypatch.setenv("DESK_KEY", "two words")
    with pytest.raises(RemoteError, match="is not a key") as raised:
        remotes.read_key(home, named)
    assert "two words" not in str(raised.value)


def test_a_key_is_sent_to_its_server_and_told_to_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(remotes.KEY, KEY)
    refusal = Recorded.json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    broken = Recorded.events(chunk({"content": "x"}), {"error": f"key {KEY} revoked"})
    with serve("vllm", chat=refusal) as server:
        engine, _ = open_remote(home, "", server.url)
        for answer in (refusal, broken):
            server.answers["/v1/chat/completions"] = [answer]
            with pytest.raises(RemoteError, match=r"\[key\]") as raised:
                list(engine.chat([], engine.defaults))
            assert KEY not in f"{raised.value!r} {raised.value.__cause__!r} {raised.value.__context__!r}"
        assert {asked.headers["Authorization"] for asked in server.requests} == {f"Bearer {KEY}"}
        assert KEY not in f"{engine.connection!r} {vars(Opened(engine, 'm', 0, 0.0))}"


def test_a_redirect_is_not_followed(home: Path) -> None:
    with serve("vllm") as other, serve("vllm") as server:
        server.answers["/v1/models"] = [Recorded.json({}, 302, Location=f"{other.url}/v1/models")]
        with pytest.raises(RemoteError):
            open_remote(home, "m", f"{server.url}/v1")
        assert not other.requests


def test_a_proxy_is_not_asked_for_this_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serve("vllm") as server:
        assert open_remote(home, "", server.url)[1] == f"m@{server.url}"


def test_offline_refuses_another_machine_before_anything_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(Offline, match=r"models\.example is another machine"):
        open_remote(home, "m", ELSEWHERE)
    with serve("vllm") as server:
        assert open_remote(home, "", server.url)[0].model.name == "m"


def test_it_is_said_where_text_goes() -> None:
    engine = ScriptedEngine()
    assert "text goes to a:1" in Opened(engine, "m", 0, 0.0, leaves="a:1").place
    assert "goes" not in Opened(engine, "m", 0, 0.0).place
    rows = describe_remotes([Remote("desk", ELSEWHERE, models=("a",)), Remote("own", "http://localhost:1")])
    assert [(row.name, row.state, row.note) for row in rows] == [
        ("a@desk", "remote", "on desk: text goes to models.example"),
        ("@own", "remote", "on own: text stays on this machine"),
    ]


# Commands


def test_a_server_is_named_used_and_forgotten(chatapp: Run, home: Path) -> None:
    with serve("vllm") as server:
        done = chatapp("remote", "add", "desk", server.url)
        assert (done.returncode, done.stdout) == (0, f"desk is {server.url}/v1; its models (1): m\n")
        assert "stays here" in chatapp("remote", "list").stdout
        done = chatapp("run", "m@desk", "Say it.", "--stats")
        assert (done.returncode, done.stdout) == (0, f"{TEXT}\n") and "6 written" in done.stderr
        assert chatapp("run", "--remote", "desk", "Say it.").stdout == f"{TEXT}\n"
        assert chatapp("run", "--remote", server.url, "--model", "m", "Say it.").stdout == f"{TEXT}\n"
        assert [asked.body["model"] for asked in server.requests if asked.body] == ["m"] * 3
        done = chatapp("chat", "--plain", "--remote", "desk", stdin="Say it.\n/show info\n/bye\n")
        assert f"m@desk: {TEXT}" in done.stdout and "answers on 127.0.0.1" in done.stderr
        done = chatapp("run", "-c", "And again.")  # with the model that answered before
        assert done.stdout == f"{TEXT}\n"
        assert server.requests[-1].body["messages"][1]["content"] == TEXT
    assert chatapp("remote", "rm", "desk").stdout == "Removed desk\n"
    assert "No servers yet" in chatapp("remote", "list").stderr


def test_code_is_completed_on_a_server(chatapp: Run) -> None:
    with serve("llamacpp") as server:
        done = chatapp(
            "complete", "--remote", server.url, "-", "--at", "2:11", stdin="def add(a, b):\n    return\n\nx = 1"
        )
        assert (done.returncode, done.stdout.strip()) == (0, "a + b"), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "builtin", "x", "--model", "m"], 2, "--model names a model of a server"),
        (["run", "a", "x", "--remote", "desk", "--model", "m"], 2, "two models were given"),
        (["run", "x", "--remote", "not a name"], 2, "unknown server"),
        (["run", "x", "--remote", "nobody"], 1, "unknown server 'nobody'"),
        (["why", "m@desk"], 1, "models on a server can only run, chat and complete"),
        (["run", "m@http://127.0.0.1:9", "x", "--backend", "onnx"], 2, "--backend needs a model on this machine"),
        (["run", "m@http://127.0.0.1:9", "x"], 1, "cannot be reached"),
        (["remote", "add", "desk"], 2, "no URL given"),
        (["remote", "rm"], 2, "no server given"),
        (["remote", "add", "a/b", "http://127.0.0.1:9"], 2, "invalid name 'a/b'"),
        (["remote", "add", "desk", "http://me:pw@a"], 1, "must not contain a user"),
    ],
)
def test_what_cannot_be_meant_is_refused(chatapp: Run, words: list[str], code: int, said: str) -> None:
    done = chatapp(*words)
    assert done.returncode == code and said in done.stderr and not done.stdout


def test_a_key_is_read_without_being_shown(chatapp: Run, home: Path) -> None:
    with serve("vllm") as server:
        done = chatapp("remote", "add", "desk", server.url, "--key", stdin=f"{KEY}\n")
        assert done.returncode == 0 and KEY not in done.stdout + done.stderr
        assert server.requests[-1].headers["Authorization"] == f"Bearer {KEY}"
        assert remotes.read_key(home, remotes.find(home, "desk")) == KEY
    assert KEY not in chatapp("remote", "list", "--json").stdout


def test_ctrl_d_in_the_place_of_a_key_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(question: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(InputError, match="no key given"):
        command.run(parse(["remote", "add", "desk", "http://127.0.0.1:9", "--key"]), read=leave)
