"""`pull`, `search`, `login` and `--offline`."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from drills.faults import drill as pulls_under_faults
from drills.pull import drill

from chatapp.cli import login
from chatapp.text.errors import InputError
from support.checkpoints import ROOT, MakeCheckpoint, Run, write_tokenizer
from support.loopback_hub import LoopbackHub
from support.patience import PATIENCE, until
from support.pulls import stalled

GOLDEN = ROOT / "tests" / "golden"
HUGE = dict(num_hidden_layers=4_000, num_attention_heads=1024, num_key_value_heads=1024, head_dim=64)
"""Fields of config.json with which keys and values take 9 TB."""
UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of Unix")


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint, loopback: LoopbackHub) -> Path:
    folder = checkpoint("tiny", chats=True)
    loopback.publish("org/tiny", folder)
    return folder


def events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.process
def test_a_pulled_model_answers(chatapp: Run, tiny: Path) -> None:
    done = chatapp("pull", "org/tiny")
    assert done.returncode == 0, done.stderr
    assert "llama" in done.stdout and "int8" in done.stdout and "mit" in done.stdout
    assert done.stdout.endswith("org--tiny is ready, on onnx cpu int8: chatapp run org--tiny\n")
    assert "model.safetensors: " in done.stderr
    for name in ("org/tiny", "org--tiny"):
        assert chatapp("run", name, "hello", "--max-tokens", "4").returncode == 0
    assert "org--tiny" in chatapp("list").stdout
    assert "freed" in chatapp("rm", "org/tiny").stdout
    assert "if the Hub has it: chatapp pull org/tiny" in chatapp("run", "org/tiny", "hello").stderr


@pytest.mark.parametrize(
    ("name", "repository", "case"),
    [
        ("gpt2", "openai-community/gpt2", "gpt2"),
        ("qwen3-0.6b", "Qwen/Qwen3-0.6B", "qwen3"),
    ],
)
def test_a_name_of_the_catalogue_is_pulled(
    chatapp: Run, loopback: LoopbackHub, tmp_path: Path, name: str, repository: str, case: str
) -> None:
    folder = Path(shutil.copytree(GOLDEN / case, tmp_path / case))
    write_tokenizer(folder, 96)
    loopback.publish(repository, folder)
    assert "chatapp pull" in chatapp("run", name, "a").stderr
    assert chatapp("pull", name).returncode == 0
    assert chatapp("run", name, "a b c", "--max-tokens", "4").returncode == 0


def test_a_dry_run_writes_nothing(chatapp: Run, tiny: Path, home: Path) -> None:
    done = chatapp("pull", "org/tiny", "--dry-run")
    assert done.returncode == 0
    for word in ("licence", "files", "precision", "disk", "memory", "speed"):
        assert f"\n  {word} " in done.stdout
    assert not home.exists()


def test_programs_read_the_plan_the_progress_and_the_end(chatapp: Run, tiny: Path, loopback: LoopbackHub) -> None:
    loopback.fault("safetensors", after=1, rate=300_000)
    done = chatapp("pull", "org/tiny", "--json", "--precision", "f32")
    plan, *rest = events(done.stdout)
    assert plan["event"] == "plan" and plan["precision"] == "f32" and plan["problems"] == []
    progress = [one for one in rest if one["event"] == "progress"]
    counts = [one["done"] for one in progress]
    assert len(counts) > 2 and counts == sorted(counts, key=lambda count: int(str(count)))
    assert counts[-1] == plan["size"] == progress[-1]["size"]
    assert [one["step"] for one in rest if one["event"] == "step"][-1] == "lowering"
    assert rest[-1]["event"] == "ready" and rest[-1]["runs_on"] == "onnx cpu f32"
    assert done.stderr == ""


def test_what_does_not_fit_is_refused_unless_forced(
    chatapp: Run, loopback: LoopbackHub, checkpoint: MakeCheckpoint
) -> None:
    loopback.publish("org/huge", checkpoint("huge", **HUGE))
    for options in ((), ("--dry-run",), ("--json",)):
        done = chatapp("pull", "org/huge", *options)
        assert done.returncode == 1
        assert re.search(r"org--huge does not fit: [\d,.]+ GB of memory needed .*--force", done.stderr)
    assert not loopback.asked("tokenizer.json")
    forced = chatapp("pull", "org/huge", "--force")
    assert "does not fit" not in forced.stderr
    assert loopback.asked("tokenizer.json")


@UNIX
def test_control_c_leaves_at_once_and_the_next_pull_goes_on(
    chatapp: Run, tiny: Path, loopback: LoopbackHub, home: Path
) -> None:
    loopback.fault("safetensors", after=1, stall=200_000, delay=1000)
    command = [sys.executable, "-m", "chatapp", "pull", "org/tiny"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        until(lambda: stalled(home))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr and "run the same pull again" in process.stderr.read()
    assert chatapp("pull", "org/tiny").returncode == 0
    assert loopback.asked("safetensors")[-1].range == "bytes=200000-"


@UNIX
@pytest.mark.parametrize("colour", [True, False])
def test_bars_in_a_terminal_never_go_backwards(
    tiny: Path, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch, colour: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    loopback.fault("safetensors", after=1, rate=400_000, cut=150_000)
    loopback.fault("safetensors", after=1, rate=400_000, flip=200_000)
    screen = in_a_terminal("pull", "org/tiny")
    shares = [int(share) for share in re.findall(r"all .*?(\d+) %", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen))]
    assert len(shares) > 3 and shares == sorted(shares) and shares[-1] == 100
    assert "/s" in screen and " left" in screen
    assert bool(re.search(r"\x1b\[[\d;]*3\d", screen)) == colour


def in_a_terminal(*arguments: str) -> str:
    """What the command prints to standard error when that is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "chatapp", *arguments], stderr=theirs, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    os.close(theirs)
    output = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                output += os.read(ours, 1 << 16)
            except OSError:
                break
    os.close(ours)
    assert process.wait(120) == 0
    return output.decode()


# Errors


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gtp2", "did you mean gpt2"),
        ("org/none", "no public repository org/none"),
        ("../x", "no model '../x'"),
        ("org/tiny@no", "no revision 'no'"),
        ("https://hf.example/org/tiny/tree/main", "instead of a URL, give org/tiny"),
        ("org/tiny:Q4_K_M", "org/tiny has no GGUF file of Q4_K_M"),
    ],
)
def test_what_cannot_be_pulled_is_said_in_one_line(chatapp: Run, tiny: Path, name: str, message: str) -> None:
    done = chatapp("pull", name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert message in done.stderr


def test_a_device_that_is_not_here_is_refused_before_anything_is_asked(
    chatapp: Run, tiny: Path, loopback: LoopbackHub
) -> None:
    for backend in [], ["--backend", "onnx"]:
        done = chatapp("pull", "org/tiny", "--device", "tpu", *backend)
        assert done.returncode == 1 and "device 'tpu' here" in done.stderr
    assert not loopback.requests


def test_what_the_hub_says_cannot_steer_the_terminal(chatapp: Run, tiny: Path, loopback: LoopbackHub) -> None:
    loopback.fault("/api/models", status=400, body=b'{"error": "\\u001b]0;owned\\u0007 no"}')
    done = chatapp("pull", "org/tiny")
    assert done.returncode == 1 and "\x1b" not in done.stderr


def test_ctrl_d_in_the_place_of_a_token_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(question: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(InputError, match="no token given"):
        login.run(Namespace(), read=leave)


@pytest.mark.process
def test_a_token_opens_gated_models(
    chatapp: Run, tiny: Path, loopback: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.gated.add("org/tiny")
    loopback.members.add("org/tiny")
    assert (
        f"gated: accept its terms at {loopback.url}/org/tiny, then: chatapp login" in chatapp("pull", "org/tiny").stderr
    )
    wrong = chatapp("login", stdin="hf_wrong\n")
    assert wrong.returncode == 1 and "does not accept your token" in wrong.stderr
    assert "no token given" in chatapp("login").stderr
    done = chatapp("login", stdin="secret\n")
    assert done.stdout == "logged in as tester\n"
    assert "secret" not in done.stderr
    token = tmp_path / "huggingface" / "token"
    assert token.read_text() == "secret"
    token.chmod(0o644)
    assert chatapp("login", stdin="secret\n").returncode == 0 and token.stat().st_mode & 0o777 == 0o600
    assert chatapp("pull", "org/tiny", "--dry-run").returncode == 0
    assert [path.name for path in token.parent.iterdir()] == ["token"]
    token.unlink()
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert chatapp("pull", "org/tiny", "--dry-run").returncode == 0


@pytest.mark.process
def test_nothing_is_asked_that_was_not_told(chatapp: Run, tiny: Path, loopback: LoopbackHub) -> None:
    """huggingface_hub would also ask which programs to look for, and report them."""
    chatapp("pull", "org/tiny", "--dry-run")
    assert {one.path.split("?")[0].rpartition("/")[2] for one in loopback.requests} == {
        "tiny", "config.json", "model.safetensors"
    }  # fmt: skip


# Search


@pytest.mark.process
def test_the_catalogue_is_listed_without_the_network(chatapp: Run) -> None:
    done = chatapp("search", "--offline")
    assert "gpt2-medium" in done.stdout and "llama3.2, gated" in done.stdout
    assert re.search(r"gpt2 +124M +399 MB +mit", done.stdout)


def test_a_search_finds_what_runs_here(chatapp: Run, tiny: Path, loopback: LoopbackHub, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "rwkv"}')
    loopback.publish("org/tiny-rwkv", other)
    done = chatapp("search", "tiny")
    assert "org/tiny " in done.stdout and "tinyllama-chat" in done.stdout and "rwkv" not in done.stdout
    assert re.search(r"org/tiny +llama +1M +201 MB or more +7 +mit", done.stdout)
    found = json.loads(chatapp("search", "tiny", "--json").stdout)
    assert found["hub"][0]["memory"] == 201_003_906
    assert all(one["memory"] > 300_000_000 for one in found["catalog"])
    assert [one["id"] for one in found["hub"]] == ["org/tiny"]
    assert "tinyllama-chat" in [one["name"] for one in found["catalog"]]
    assert "no model that runs here" in chatapp("search", "nowhere").stderr
    assert chatapp("search", "llama3.2:1b").stdout.splitlines()[1].startswith("llama-3.2-1b-instruct ")
    assert all("mellum-4b" in chatapp("search", *words).stdout for words in (["filling code"], ["filling", "code"]))
    rounded = '{"model_type": "llama", "quantization_config": {"quant_method": "awq"}}'
    (other / "config.json").write_text(rounded)
    loopback.publish("org/tiny-AWQ", other)
    assert "AWQ" not in chatapp("search", "tiny").stdout
    assert re.search(r"org/tiny-AWQ +llama +7 +mit", chatapp("search", "awq").stdout)
    for name in "a-Q8_0", "a-Q4_K_M", "mmproj-F16":
        (other / f"{name}.gguf").touch()
    loopback.publish("org/tiny-GGUF", other)
    done = chatapp("search", "tiny-gguf")
    assert re.search(r"org/tiny-GGUF +Q4_K_M, Q8_0\n\nTo pull one: chatapp pull org/tiny-GGUF:Q4_K_M\n$", done.stdout)
    found = json.loads(chatapp("search", "hf.co/org/tiny-GGUF:q8_0", "--json").stdout)
    assert found["hub"][0]["quantizations"] == ["Q8_0"]


def test_a_search_waits_as_it_is_told_and_gives_up_with_one_line(chatapp: Run, loopback: LoopbackHub) -> None:
    loopback.fault("/api/models", status=429, headers={"Retry-After": "1"})
    done = chatapp("search", "tiny")
    assert done.returncode == 0 and len(loopback.requests) == 2
    loopback.fault("/api/models", status=429, headers={"Retry-After": "100000"})
    done = chatapp("search", "tiny")
    assert done.returncode == 1 and "try again then" in done.stderr and done.stderr.count("\n") == 1
    loopback.fault("/api/models", body=b'[{"id": "org/x", "tags": "llama", "safetensors": {"total": -1}}]', status=200)
    assert "does not answer as the Hub would" in chatapp("search", "tiny").stderr


# Offline


@pytest.mark.process
@pytest.mark.parametrize(
    "given", [("--offline", "pull", "org/tiny"), ("search", "tiny", "--offline"), ("--offline", "login")]
)
def test_offline_forbids_what_needs_the_network(chatapp: Run, loopback: LoopbackHub, given: tuple[str, ...]) -> None:
    command = next(word for word in given if word in ("pull", "search", "login"))
    done = chatapp(*given, stdin="secret")
    assert done.returncode == 1
    assert done.stderr == f"Error: {command} needs the network, which --offline or CHATAPP_OFFLINE forbids\n"
    assert not loopback.requests


@pytest.mark.process
def test_a_variable_forbids_the_network_as_well(
    chatapp: Run, loopback: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATAPP_OFFLINE", "1")
    assert "CHATAPP_OFFLINE forbids" in chatapp("pull", "org/tiny").stderr
    monkeypatch.setenv("CHATAPP_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set" in chatapp("pull", "org/tiny").stderr
    assert not loopback.requests


def test_offline_refuses_other_machines_whatever_asks_for_them() -> None:
    code = """
import socket
from chatapp.settings import offline
offline.enforce()
for ask in (
    lambda: socket.create_connection(("192.0.2.1", 80), 0.1),
    lambda: socket.getaddrinfo("example.com", 80),
    lambda: socket.gethostbyname("example.com"),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
):
    try:
        ask()
        print("asked")
    except offline.Offline as error:
        print(error)
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("which --offline or CHATAPP_OFFLINE forbids; nothing was sent") == 4


@pytest.mark.process
def test_offline_is_handed_on_to_processes(
    chatapp: Run, checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calibration runs in processes of its own."""
    monkeypatch.setenv("CHATAPP_BACKEND", "")
    done = chatapp("--offline", "run", str(checkpoint()), "hello", "--max-tokens", "3")
    assert done.returncode == 0, done.stderr


# Kills


@UNIX
def test_kills_leave_the_model_whole_or_absent(tmp_path: Path) -> None:
    """The short form of the drill, which says the seed of its moments when it fails."""
    seed = time.time_ns()
    print(f"seed {seed}")
    assert drill(tmp_path, 8, seed=seed).startswith("8 kills")


@UNIX
def test_pulls_under_faults_leave_the_model_whole_or_absent_and_the_next_brings_it(tmp_path: Path) -> None:
    assert "4 pulls under faults" in pulls_under_faults(tmp_path, 4, seed=5)
