"""The command line as a process: what it prints where, and how it ends."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from chatapp import __main__
from chatapp.cli import main, run
from support.checkpoints import ENDLESS, ROOT, MakeCheckpoint, Run

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and paths of Unix")


# Answers


def test_run_prints_the_text_and_nothing_else(chatapp: Run) -> None:
    done = chatapp("run", "builtin", "def fibonacci(n):", "--max-tokens", "8", "--seed", "1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert not done.stdout.startswith("def fibonacci")


def test_the_same_seed_gives_the_same_text(chatapp: Run) -> None:
    def text(seed: str) -> str:
        return chatapp("run", "builtin", "import", "--max-tokens", "12", "--temperature", "0.8", "--seed", seed).stdout

    assert text("1") == text("1") != text("2")


@pytest.mark.parametrize(
    ("prompt", "whole"), [((), "import os"), (("-",), "import os"), (("import re",), "import os\n\nimport re")]
)
def test_a_prompt_is_read_from_standard_input(chatapp: Run, prompt: tuple[str, ...], whole: str) -> None:
    options = ("--max-tokens", "8", "--temperature", "0")
    piped = chatapp("run", "builtin", *prompt, *options, stdin="import os\n")
    assert piped.stdout == chatapp("run", "builtin", whole, *options).stdout != ""


@UNIX
@pytest.mark.parametrize(("piped", "whole"), [("", "More."), ("text\n", "text\n\nMore.")])
def test_a_pipe_into_which_nobody_writes_is_not_waited_for(
    piped: str, whole: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end, begin = os.pipe()
    with open(end) as stdin, open(begin, "w") as writer:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr(run, "PATIENCE", 0.0)
        if piped:
            writer.write(piped)
            writer.close()
        assert run.read_prompt("More.") == whole
    assert ("using the prompt alone" in capsys.readouterr().err) == (not piped)


def test_options_may_stand_before_the_prompt(chatapp: Run) -> None:
    before = chatapp("run", "--temperature", "0", "builtin", "--max-tokens", "4", "x = ")
    after = chatapp("run", "builtin", "x = ", "--temperature", "0", "--max-tokens", "4")
    assert before.stdout == after.stdout != ""


def test_a_prompt_may_look_like_an_option(chatapp: Run) -> None:
    assert chatapp("run", "builtin", "--max-tokens", "4", "--", "--verbose").returncode == 0


def test_a_checkpoint_folder_is_a_model(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    before = sorted(folder.iterdir())
    assert chatapp("run", str(folder), "hello", "--max-tokens", "4").returncode == 0
    assert sorted(folder.iterdir()) == before
    assert "tiny" in chatapp("list").stdout


def test_a_model_with_a_template_answers(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    done = chatapp("run", str(checkpoint(chats=True)), "hello", "--max-tokens", "4", "--stats", "json")
    assert done.returncode == 0
    assert json.loads(done.stderr)["prompt_tokens"] > 5


def test_control_characters_of_the_model_do_not_reach_the_output(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    escape = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]["ě"]  # byte 0x1b
    options = ("--max-tokens", "2", "--temperature", "0", "--logit-bias", f"{escape}=100")
    assert chatapp("run", str(folder), "x", *options).stdout == "␛␛\n"
    assert chatapp("run", str(folder), "x", *options, "--raw").stdout == "\x1b\x1b"


def test_several_completions_come_one_after_the_other(chatapp: Run) -> None:
    done = chatapp("run", "builtin", "x", "--n", "3", "--max-tokens", "3", "--seed", "1", "--stop", "\n")
    assert done.stdout.count("\n") == 3
    assert done.stderr.splitlines() == [f"completion {place} of 3" for place in (1, 2, 3)]


def test_json_has_a_line_for_each_completion(chatapp: Run) -> None:
    done = chatapp("run", "builtin", "x", "--n", "2", "--max-tokens", "3", "--json", "--logprobs", "2")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["index"] for line in lines] == [0, 1]
    assert {line["finish_reason"] for line in lines} <= {"stop", "length"}
    assert all(token["logprob"] < 0 and len(token["alternatives"]) == 2 for token in lines[0]["tokens"])
    assert done.stderr == ""


def test_log_probabilities_go_to_standard_error(chatapp: Run) -> None:
    done = chatapp("run", "builtin", "x", "--max-tokens", "3", "--logprobs", "1", "--temperature", "0")
    assert done.stderr.count("\n") == 3
    assert done.stdout == chatapp("run", "builtin", "x", "--max-tokens", "3", "--temperature", "0").stdout


def test_stats_are_for_people_or_for_programs(chatapp: Run) -> None:
    people = chatapp("run", "builtin", "--stats", "import os", "--max-tokens", "4")
    assert "tokens/s" in people.stderr
    assert people.stdout != ""
    program = chatapp("run", "builtin", "import os", "--max-tokens", "4", "--stats", "json")
    usage = json.loads(program.stderr)
    assert usage["completion_tokens"] <= 4
    assert usage["time_to_first_token"] > 0
    assert usage["backend"] == "onnx"


# Completions


def test_what_the_file_itself_has_comes_first(chatapp: Run, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    line = "    parser.add_argument('--verbose', help='more')\n"
    file.write_text(line + line[:36] + "\nprint('end')\n")
    done = chatapp("complete", str(file), "--at", "2:37", "--json")
    assert json.loads(done.stdout)["text"] == " help='more')"
    assert json.loads(done.stdout)["source"] == "file"


def test_the_model_completes_where_the_file_has_nothing(chatapp: Run) -> None:
    done = chatapp("complete", "--at", "2:5", "-n", "3", "--json", stdin="def add(a, b):\n    \n\nprint(add(1, 2))\n")
    offers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert all(offer["source"] == "model" and "\n" not in offer["text"] for offer in offers)
    assert len({offer["text"] for offer in offers}) == len(offers) <= 3


def test_a_place_behind_the_name_of_a_file_is_told_how_to_give(chatapp: Run, tmp_path: Path) -> None:
    file = tmp_path / "adder.py"
    file.write_text("def add(a, b):\n    ")
    done = chatapp("complete", f"{file}:2:5")
    assert done.returncode == 2
    assert f"for a position in a file: {file} --at 2:5" in done.stderr


@pytest.mark.parametrize(
    "given",
    [
        "run m@http://h:1 x --draft-model builtin",
        "serve --host 0.0.0.0",
        "serve --tls-cert FILE",
        "remote list x",
        "cache list builtin",
        "bench builtin --all-backends --device cpu",
        "bench builtin --load --tokens 5",
        "export qaic builtin DIR --cores 0",
        "export triton builtin DIR --streams 0",
        "sessions export",
        "sessions rm --all 1",
        "export openvino builtin ''",
        "sessions export 1 --output ''",
    ],
)
def test_wrong_usage_is_told_by_the_exit_code(chatapp: Run, given: str) -> None:
    done = chatapp(*shlex.split(given))
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("Error: ")


@pytest.mark.parametrize("command", ["import", "rm", "show", "complete", "sessions import"])
def test_an_empty_name_is_not_the_folder_that_one_is_in(chatapp: Run, command: str) -> None:
    done = chatapp(*command.split(), "")
    assert done.returncode == 1 and ("called ''" in done.stderr or "folder ''" in done.stderr or "empty" in done.stderr)


def test_without_a_place_the_end_is_completed(chatapp: Run) -> None:
    text = "import os\nimport sys\n\n\ndef main("
    assert chatapp("complete", stdin=text).stdout == chatapp("complete", "--at", "5:10", stdin=text).stdout


def test_several_lines_are_cut_where_asked(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    done = chatapp("complete", "-", "--lines", "2", "--max-tokens", "40", stdin="def main():")
    assert done.stdout.count("\n") <= 2


# Listings


def test_listings_name_the_built_in_model_first(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    chatapp("run", str(checkpoint("aaa")), "x", "--max-tokens", "1")
    names = [model["name"] for model in json.loads(chatapp("list", "--json").stdout)]
    assert names == ["builtin", "aaa"]
    assert chatapp("ls").stdout == chatapp("list").stdout
    assert [line.split()[0] for line in chatapp("ls").stdout.splitlines()] == ["NAME", *names]


def test_show_tells_what_a_model_is(chatapp: Run, checkpoint: MakeCheckpoint, home: Path) -> None:
    home.mkdir()
    (home / "presets.toml").write_text("[builtin]\ntop_k = 7\n")
    assert re.search(r"your preset +top_k 7\n", chatapp("show", "builtin").stdout)
    assert chatapp("show", str(checkpoint(chats=True)), "--template").stdout.startswith("{% for message in messages %}")
    assert "has no chat template" in chatapp("show", "builtin", "--template").stderr
    facts = json.loads(chatapp("show", "builtin", "--json").stdout)
    assert facts["family"] == "llama"
    text = chatapp("show", "builtin").stdout
    assert f"{facts['precision']} ({facts['precision_reason']})" in text


def test_show_tells_what_carries_the_weights_and_at_what_size(chatapp: Run) -> None:
    for precision in ("int8", "mxfp4"):
        chatapp("run", "builtin", "x", "--max-tokens", "1", "--backend", "onnx", "--precision", precision)
    lines = {line[:12].strip(): line for line in chatapp("show", "builtin").stdout.splitlines()}
    assert re.search(r"MB, 8\.\d bits a weight\)$", lines["onnx int8"])
    assert re.search(r"MB, 9\.\d bits a weight; weights exactly so, carried by int8\)$", lines["onnx mxfp4"])


def test_rm_frees_what_was_made_and_leaves_the_checkpoint(chatapp: Run, checkpoint: MakeCheckpoint, home: Path) -> None:
    folder = checkpoint()
    chatapp("run", str(folder), "x", "--max-tokens", "1")
    assert (home / "models" / "tiny").exists()
    done = chatapp("rm", "tiny")
    assert done.returncode == 0
    assert "freed" in done.stdout
    assert not (home / "models" / "tiny").exists()
    assert (folder / "model.safetensors").exists()


def test_rm_tells_the_name_of_the_model_that_it_deletes(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint())
    chatapp("import", folder, "--name", "Chat")
    assert re.fullmatch(r"Chat: \d+ B freed\n", chatapp("rm", folder).stdout)
    assert "nothing to delete for" in chatapp("rm", folder).stderr
    chatapp("import", folder)
    done = chatapp("rm", "nothing", "tiny")
    assert (done.returncode, done.stdout[:6]) == (1, "tiny: ") and "'nothing'" in done.stderr


def test_a_path_is_the_model_of_its_own_name_and_rm_of_it_removes_no_other(
    chatapp: Run, checkpoint: MakeCheckpoint
) -> None:
    folder = str(checkpoint())
    chatapp("import", folder)
    chatapp("cp", "tiny", "alias")
    assert json.loads(chatapp("show", folder, "--json").stdout)["name"] == "tiny"
    done = chatapp("rm", folder)
    assert (done.returncode, done.stdout) == (1, "") and "tiny, alias; give the ones to remove" in done.stderr


@pytest.mark.parametrize(
    "given",
    ["run % x --device gpu", "bench % --device gpu", "verify % --against no.npz", "export qaic % out --ctx-len 0"],
)
def test_a_path_that_was_tried_in_vain_is_no_model_afterwards(
    chatapp: Run, checkpoint: MakeCheckpoint, given: str
) -> None:
    assert chatapp(*given.replace("%", str(checkpoint())).split()).returncode
    assert [one["name"] for one in json.loads(chatapp("list", "--json").stdout)] == ["builtin"]


def test_devices_and_version_tell_what_runs_here(chatapp: Run) -> None:
    assert {"backend": "onnx", "device": "cpu"}.items() <= json.loads(chatapp("devices", "--json").stdout)[0].items()
    assert "cpu" in chatapp("devices").stdout
    assert chatapp("version").stdout.splitlines()[0] == chatapp("--version").stdout.strip()


def test_bench_times_a_model(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint(max_position_embeddings=128))
    figures = json.loads(chatapp("bench", folder, "--tokens", "5", "--json").stdout)
    assert [prompt["prompt_tokens"] for prompt in figures["prefill"]] == [16, 64]
    assert [step["batch"] for step in figures["decode"]] == [1, 5]
    text = chatapp("bench", folder, "--tokens", "5").stdout
    assert "FIRST TOKEN" in text and "█" in text
    rows = [line.split(",") for line in chatapp("bench", folder, "--tokens", "5", "--csv").stdout.splitlines()]
    assert rows[0] == ["backend", "device", "precision", "what", "at", "figure", "value"]
    assert {tuple(row[3:6]) for row in rows} >= {("load", "", "warm"), ("decode", "5", "p95"), ("memory", "", "peak")}


@pytest.mark.process
def test_bench_compares_the_backends_or_only_loads(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint(max_position_embeddings=128))
    text = chatapp("bench", folder, "--tokens", "5", "--all-backends").stdout
    assert "onnx cpu int8" in text
    loads = json.loads(chatapp("bench", folder, "--load", "--json", "--precision", "f32").stdout)
    assert loads["first_load"] > loads["warm_load"] > 0
    assert loads["prefill"] == loads["decode"] == []
    assert loads["placement"]["precision"] == "f32"


# Ctrl+C and closed pipes


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "chatapp", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=ROOT,
    )


@UNIX
def test_an_interrupted_answer_keeps_its_text(checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint(max_position_embeddings=32768))
    with start("run", folder, "x", *ENDLESS, "--stats") as process:
        assert process.stdout
        begun = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        text, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert len(begun + text) > 1
    assert text.endswith(b"\n")
    assert stderr.startswith(b"Interrupted.\n")
    assert b"tokens/s" in stderr


@UNIX
@pytest.mark.parametrize(("sign", "code", "said"), [("SIGINT", 130, b"Interrupted.\n"), ("SIGTERM", 143, b"")])
def test_a_signal_while_nothing_is_written_ends_in_good_order(
    sign: str, code: int, said: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "pipe"
    os.mkfifo(file)
    with start("complete", str(file)) as process, file.open("wb"):  # opens when the process has opened it too
        process.send_signal(getattr(signal, sign))
        stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr) == (code, b"", said)


@UNIX
def test_a_closed_pipe_ends_quietly(checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint(max_position_embeddings=32768))
    with start("run", folder, "x", *ENDLESS) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 0


def test_an_interrupt_at_the_start_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "start", interrupt)
    assert __main__.start() == 130
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"chatapp": "chatapp.__main__:start"}


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        (["stdout"], ("list",), 0),
        (["stdin"], ("run", "builtin"), 1),
        (["stderr"], ("run", "builtin", "x", "--max-tokens", "2"), 0),
        (["stdin", "stdout", "stderr"], ("list",), 0),
    ],
)
def test_closed_streams_are_no_reason_to_fail(
    monkeypatch: pytest.MonkeyPatch, closed: list[str], arguments: tuple[str, ...], code: int
) -> None:
    with monkeypatch.context() as patch:
        for name in closed:
            patch.setattr(sys, name, None)
        assert main.main(arguments) == code
        for name in closed:
            getattr(sys, name).close()


@pytest.mark.parametrize("command", [name for name in main.COMMANDS if name != "chat"])
def test_the_manual_tells_every_option(chatapp: Run, command: str) -> None:
    manual = (ROOT / "docs" / "commands.md").read_text("utf-8")
    options = set(re.findall(r"--[a-z][a-z-]*", chatapp(command, "--help").stdout)) - {"--help"}
    assert f"chatapp {command}" in manual
    assert not [option for option in options if option not in manual]
