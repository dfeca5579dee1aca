"""Bad input: each is refused in one line that says what happened and what to do, and nothing is lost."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkpoints import MakeCheckpoint, Run, random_llama, write_safetensors

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="paths of Unix")


def assert_refused(done: "subprocess.CompletedProcess[str]", code: int, *says: str) -> None:
    """One line on standard error that says all this, nothing on standard output."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in says:
        assert part in done.stderr


def test_a_missing_model_is_named_with_the_nearest(chatapp: Run) -> None:
    assert_refused(chatapp("run", "bultin", "x"), 1, "'bultin'", "did you mean builtin")
    assert_refused(chatapp("import", "gpt2"), 1, "no file or folder 'gpt2'", "chatapp pull gpt2")
    assert_refused(chatapp("show", "./nothing"), 1, "./nothing")
    assert_refused(chatapp("rm", "nothing"), 1, "'nothing'")


@pytest.mark.parametrize("prompt", [("",), ("-",), ()])
def test_an_empty_prompt_is_refused(chatapp: Run, prompt: tuple[str, ...]) -> None:
    assert_refused(chatapp("run", "builtin", *prompt), 1, "the prompt is empty")


@pytest.mark.parametrize(
    ("content", "says"), [(b"ab\0c", "byte 3"), (b"ok \xff\xfe", "byte 4"), (b"\x89PNG", "byte 1")]
)
def test_a_binary_prompt_or_file_is_refused(chatapp: Run, tmp_path: Path, content: bytes, says: str) -> None:
    assert_refused(chatapp("run", "builtin", "-", stdin=content), 1, "standard input", says)
    assert_refused(chatapp("complete", stdin=content), 1, "standard input", says)
    file = tmp_path / "picture.png"
    file.write_bytes(content)
    assert_refused(chatapp("complete", str(file)), 1, "picture.png", says)


@UNIX
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "builtin"),
        ("run",),
        ("run", "builtin", "x", "--choice"),
        ("run", "builtin", "x", "--dry-breaker"),
        ("complete",),
        ("search",),
        ("mcp", "add", "name"),
    ],
    ids=" ".join,
)
def test_an_argument_that_is_not_text_is_refused(chatapp: Run, arguments: tuple[str, ...]) -> None:
    assert_refused(chatapp(*arguments, os.fsdecode(b"a\xff")), 1, "is not valid UTF-8", "2")


def test_a_file_that_is_missing_or_a_folder_is_refused(chatapp: Run, tmp_path: Path) -> None:
    assert_refused(chatapp("complete", "nothing.py"), 1, "nothing.py")
    assert_refused(chatapp("complete", str(tmp_path)), 1, str(tmp_path))


def test_a_prompt_longer_than_the_context_is_refused(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = str(checkpoint(max_position_embeddings=64))
    assert_refused(chatapp("run", folder, "-", stdin="word " * 500), 1, "the prompt is too long by", "of 64)")
    assert chatapp("complete", folder, "-", stdin="word, " * 500 + "\n").returncode == 0


def test_a_truncated_checkpoint_is_refused(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    path = folder / "model.safetensors"
    for size in (path.stat().st_size - 4, 100, 4, 0):
        os.truncate(path, size)
        assert_refused(chatapp("run", str(folder), "x"), 1, "model.safetensors")


def test_what_cannot_be_lowered_is_listed_only_where_it_was_imported(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder, weights = checkpoint(), random_llama()
    weights["model.norm.weight"][0] = math.nan
    write_safetensors(folder / "model.safetensors", weights)
    assert_refused(chatapp("run", str(folder), "x"), 1, "NaN")
    assert "tiny" not in chatapp("list").stdout
    assert chatapp("import", str(folder)).returncode == 0
    assert_refused(chatapp("run", "tiny", "x"), 1, "NaN")
    assert_refused(chatapp("run", str(folder), "x"), 1, "NaN")
    assert "tiny" in chatapp("list").stdout
    assert folder.exists()


def test_an_unknown_family_is_refused(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    assert_refused(chatapp("run", str(checkpoint(model_type="lama")), "x"), 1, "lama")


def test_a_broken_config_is_refused(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    (folder / "config.json").write_text("{")
    assert_refused(chatapp("run", str(folder), "x"), 1, "config.json")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "builtin", "x", "--top-p", "7"), ("--top-p", "7.0")),
        (("run", "builtin", "x", "--top-p", "seven"), ("--top-p", "'seven'")),
        (("run", "builtin", "x", "--max-tokens", "0"), ("--max-tokens", "0")),
        (("run", "builtin", "x", "--logit-bias", "5"), ("ID=BIAS",)),
        (("run", "builtin", "x", "--logit-bias", "9999999=5"), ("9999999",)),
        (("run", "builtin", "x", "--temprature", "1"), ("unknown option --temprature", "--temperature")),
        (("run", "builtin", "x", "--backend", "tpu"), ("unknown backend 'tpu'", "onnx")),
        (("run", "builtin", "x", "--precision", "int3"), ("unknown precision 'int3'", "int4")),
        (("run", "builtin", "x", "--json", "--raw"), ("not allowed with",)),
        (("run", "builtin", "x", "y"), ("unexpected argument 'y'",)),
        (("run",), ("no MODEL given",)),
        (("run", "Why is the sky blue?"), ("no MODEL given; write it before the prompt",)),
        (("rnu", "builtin"), ("unknown command 'rnu'", "did you mean run")),
        (("gpt2",), ("unknown command 'gpt2'", "chatapp run gpt2")),
        (("ps",), ("chatapp service status",)),
        (("models",), ("did you mean list?",)),
        (("config",), ("/home/settings.toml",)),
        (("run", "builtin", "x", "--verbose"), ("did you mean --stats?",)),
        (("show", "builtin", "--modelfile"), ("--template",)),
        (("run", "builtin", "x", "--ctx-size=9"), ("as long as the model's",)),
        (("run", "builtin", "x", "--threads", "4"), ("taskset",)),
        (("run", "builtin", "x", "-ngl", "9"), ("unknown option -ngl", "--device")),
        (("-m", "x.gguf", "-p", "x"), ("unknown option -m", "chatapp run MODEL PROMPT")),
        (("mcp", "add", "x", "npx", "-t"), ("options after --",)),
        (("--model", "tiny", "run", "builtin", "x"), ("--model before a command applies to the screen",)),
        (("complete", "a", "b", "c"), ("unexpected argument 'c'",)),
        (("rm",), ("MODEL",)),
        (("sessions",), ("no ACTION given; choose from ls, ",)),
        (("run", "x", "--remote", "localhost:1"), ("unknown server 'localhost:1'", "http://localhost:1")),
        (("list", "all"), ("unexpected argument 'all'",)),
    ],
)
def test_wrong_usage_is_one_line_and_two(chatapp: Run, arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    assert_refused(chatapp(*arguments), 2, *says)


def test_an_unknown_device_is_refused(chatapp: Run) -> None:
    assert_refused(chatapp("run", "builtin", "x", "--device", "npu"), 1, "'npu'", "cpu")


def test_the_screen_needs_a_terminal(chatapp: Run) -> None:
    assert_refused(chatapp(), 1, "needs a terminal", "chatapp run builtin")


@UNIX
@pytest.mark.parametrize("where", ["file/home", "/proc/home"])
def test_a_home_that_cannot_be_written_is_refused(
    chatapp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CHATAPP_HOME", str(tmp_path / where))
    assert_refused(chatapp("run", "builtin", "x"), 1, where, "CHATAPP_HOME")
    assert (tmp_path / "file").read_text() == "in the way"


def test_settings_that_mean_nothing_are_refused(chatapp: Run, home: Path) -> None:
    home.mkdir()
    (home / "settings.toml").write_text("modle = 'x'")
    assert_refused(chatapp("complete", stdin="x"), 1, "unknown setting 'modle'", "mean model?")


@pytest.mark.parametrize(
    ("at", "says"), [("999:1", "has 3 lines"), ("1:12", "ends at column 10"), ("2:2", "ends at column 1")]
)
def test_a_place_outside_the_file_is_refused(chatapp: Run, at: str, says: str) -> None:
    assert_refused(chatapp("complete", "--at", at, stdin="import os\r\n\r\n"), 1, says, at, "--at")


@pytest.mark.parametrize("at", ["0:1", "1", "1:0", "a:b", "-1:2"])
def test_a_place_that_is_none_is_wrong_usage(chatapp: Run, at: str) -> None:
    assert_refused(chatapp("complete", f"--at={at}", stdin="x"), 2, at)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "is missing; known are BPE"),
        ('{"model": {"type": "Tiktoken", "vocab": {}}}', "is 'Tiktoken'; known are BPE"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}', "its vocabulary lacks 'ab'"),
        ('{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b c"]}}', "joins 'a b c', which is not a pair"),
    ],
)
def test_a_tokenizer_that_is_none_is_refused_by_its_file(
    chatapp: Run, checkpoint: MakeCheckpoint, content: str, says: str
) -> None:
    folder = checkpoint()
    (folder / "tokenizer.json").write_text(content)
    assert_refused(chatapp("run", str(folder), "x", "--backend", "onnx"), 1, "tokenizer.json", says)


def test_an_older_vocabulary_is_enough_and_refused_by_its_file_where_it_is_damaged(
    chatapp: Run, checkpoint: MakeCheckpoint
) -> None:
    folder = checkpoint()
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "GPT2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert_refused(chatapp("run", str(folder), "x"), 1, "neither tokenizer.json nor vocab.json")
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("".join(f"{first} {second}\n" for first, second in model["merges"]))
    done = chatapp("run", str(folder), "def add", "--max-tokens", "3", "--backend", "onnx")
    assert done.returncode == 0, done.stderr
    with (folder / "merges.txt").open("a") as merges:
        merges.write("never seen\n")
    assert_refused(chatapp("run", str(folder), "x"), 1, "merges.txt", "'never'")


def test_a_model_without_infilling_goes_on_from_the_place_and_says_so(chatapp: Run, checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<fim_", "<gap_"))
    done = chatapp("complete", str(folder), "-", "--backend", "onnx", stdin="x")
    assert done.returncode == 0 and "not trained to fill gaps" in done.stderr
