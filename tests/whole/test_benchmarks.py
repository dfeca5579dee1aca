"""The short form of the benchmarks: a tiny checkpoint is built and timed; no time is judged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MODELS = "tiny-gpt2", "tiny-llama"


def run(script: str, *arguments: str | Path, home: Path) -> str:
    """What a script of benchmarks/ prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    environment = os.environ | {"CHATAPP_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=home)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoints."""
    folder = tmp_path_factory.mktemp("benchmarks")
    run("checkpoints.py", folder, "--models", *MODELS, home=folder)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_a_checkpoint_is_what_the_store_and_the_tokenizer_read(folder: Path, model: str) -> None:
    from chatapp.placement.opening import open_engine
    from chatapp.placement.selection import PlacementOptions
    from model_store import Store

    engine = open_engine(Store(folder / "models"), str(folder / model), PlacementOptions("onnx", precision="f32"))
    tokens = engine.tokenizer.encode("Hello, world")
    assert engine.tokenizer.decode(tokens) == "Hello, world"
    logits = engine.session.forward(np.array([tokens]))
    assert logits.shape == (1, 1, 1024)
    assert logits.std() > 0.001


def test_a_mixture_is_timed_beside_a_dense_model(tmp_path: Path) -> None:
    printed = run("mixtures.py", tmp_path, "--sizes", "tiny", "--turns", "1", home=tmp_path)
    assert printed.count("peak_megabytes") == 2 and "times as fast" in printed


def test_the_session_is_timed(folder: Path) -> None:
    facts: dict[str, Any] = json.loads(
        run("peers.py", "chatapp", folder, "tiny-llama", "int4", "--repeats", "1", home=folder)
    )
    assert facts["version"].startswith("chatapp on onnxruntime")
    assert all(facts[name] > 0 for name in ("load", "first_token", "disk"))
    assert {"decode", "decode_5"} <= facts.keys()
    assert 10 < facts["peak_memory_decode"] < 1000


def test_the_comparison_ends_with_a_report(folder: Path) -> None:
    output = folder / "results.json"
    options = "--models", "tiny-gpt2", "--engines", "chatapp", "--precisions", "int4", "--short", "--output", output
    printed = run("compare.py", folder, *options, home=folder)
    report = json.loads(output.read_text())
    assert [sample["entry"]["precision"] for sample in report["samples"]] == ["int4", "int4-32"]
    assert all(len(sample["values"]["decode"]) == 1 for sample in report["samples"])
    assert report["bandwidth"][0] > 0.1
    assert len(report["start_seconds"]["onnx"]) == 2
    assert {kind for speeds in report["crowded"].values() for kind in speeds} >= {"alone", "free neighbour"}
    assert printed.strip() == output.with_suffix(".md").read_text().strip()
    assert "tiny-gpt2 int4: chatapp run on onnx, peak memory, MB" in printed


def test_engines_take_turns_at_long_prompts(folder: Path) -> None:
    options = "--models", "tiny-llama", "--precisions", "int4", "--engines", "chatapp", "ctranslate3"
    short = "--longest", "70", "--rounds", "2", "--tokens", "2"
    printed = run("long_contexts.py", folder, *options, *short, home=folder)
    missing, *rows = printed.splitlines()[2:]
    assert missing == "- tiny-llama int4: no ctranslate3: exit code 1"
    found = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert [row[:3] for row in found] == [["tiny-llama int4", length, "chatapp"] for length in ("64", "70")]
    assert all(float(row[3].split()[0]) > 0 and 10 < float(row[5]) < 1000 for row in found)


def test_overhead_and_sampling_are_measured(folder: Path) -> None:
    options = "--precision", "int4", "--tokens", "16", "--rounds", "1"
    printed = run("overhead.py", folder / "tiny-llama", *options, home=folder)
    ways = [line.split("  ")[0].strip() for line in printed.splitlines()]
    assert ways == ["bare session", "engine", "engine, logprobs=5", "chatapp run"]
    assert "min_p only" in run("sampling.py", "--repeats", "2", home=folder)


def test_guesses_and_schemas_are_measured(folder: Path) -> None:
    options = "--precisions", "f32", "--rounds", "1", "--tokens", "12"
    lines = run("guesses.py", folder / "tiny-llama", *options, home=folder).splitlines()
    kinds = [line.split()[2] for line in lines[:-1] if "times as quick, identical of 12" in line]
    assert kinds == ["go"] * 5 + ["again"] * 5 and all(" median " in line for line in lines[10:12])
    assert "percent to a token of an answer" in lines[-1]


def test_several_requests_are_measured_together(folder: Path) -> None:
    options = "--tokens", "8", "--words", "40", "--turns", "1"
    lines = run("together.py", folder / "tiny-llama", *options, home=folder).splitlines()
    figures = {line[:34].strip(): float(line[34:].split()[0]) for line in lines}
    assert figures["times as many"] == pytest.approx(figures["tokens/s of 8"] / figures["tokens/s of 1"], abs=0.02)
    assert len(figures) == 11 and min(figures.values()) > 0


def test_a_server_is_measured(folder: Path) -> None:
    options = "--tokens", "8", "--turns", "1", "--precision", "f32"
    lines = run("serving.py", folder / "tiny-llama", *options, home=folder).splitlines()
    figures = {line[:34].strip(): float(line[34:].split()[0]) for line in lines}
    assert figures["times as many"] == pytest.approx(figures["tokens/s of 8"] / figures["tokens/s of 1"], abs=0.02)
    assert len(figures) == (7 if sys.platform == "linux" else 3)


def test_the_choice_is_held_against_the_fastest(folder: Path) -> None:
    lines = run("choice.py", folder, "--models", "tiny-llama", "--rounds", "1", home=folder).splitlines()
    assert [line.split(":")[0] for line in lines] == ["tiny-llama chat", "tiny-llama completion"]
    assert all("behind the fastest" in line and "onnx cpu int8" in line for line in lines)


def test_full_size_models_are_loaded_in_turn_and_deleted(folder: Path, tmp_path: Path) -> None:
    document = tmp_path / "table.md"
    document.write_text("Before.\n<!-- measured -->\nold\n<!-- end -->\nAfter.\n")
    options = "--models", "tiny-gptj", "--precision", "int4", "--rounds", "1", "--output", document
    with pytest.raises(AssertionError, match="there is no document"):
        run("load_table.py", folder, "--output", tmp_path / "nothing.md", home=folder)
    run("load_table.py", folder, *options, home=folder)
    before, _, row = document.read_text().partition("| tiny-gptj |")
    assert before.startswith("Before.\n<!-- measured -->") and "old" not in before
    assert row.endswith("|\n\n<!-- end -->\nAfter.\n")
    cells = [cell.strip() for cell in row.splitlines()[0].split("|")]
    assert cells[:3] == ["8", "17", "int4"]
    assert float(cells[3]) >= 0  # tenths of a second, of which it may take less than one
    assert all(float(cell.split()[0].replace(",", "")) > 0 for cell in cells[4:12])
    assert not (folder / "tiny-gptj").exists()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is what it is compared with")
def test_transfers_are_timed_beside_curl(tmp_path: Path) -> None:
    report = run("transfer.py", "--size", "2", "--files", "2", "--rounds", "1", home=tmp_path)
    assert "ours / curl: " in report and "peak memory" in report


def test_conversations_are_timed(tmp_path: Path) -> None:
    options = "--conversations", "3", "--messages", "20", "--repeats", "2"
    first, _, head, *lines = run("history.py", *options, home=tmp_path).splitlines()
    assert first.startswith("3 conversations of 20 messages: ")
    assert head.split() == ["milliseconds", "median", "longest"]
    assert len(lines) == 15
    assert all(float(line.split()[-1]) > 0 for line in lines)


def test_listing_is_timed(tmp_path: Path) -> None:
    assert run("listing.py", "20", home=tmp_path).startswith("20 models, each lowered once: ")


def test_the_parts_of_an_offer_are_timed(tmp_path: Path) -> None:
    first, _, _, *rows = run("completion.py", "200", "5", "2", home=tmp_path).splitlines()
    assert first.startswith("200 lines, ")
    assert {"offer, cold", "offer, typed"} <= {row.split("|")[1].strip() for row in rows}


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has used is read as Linux tells it")
def test_the_wait_of_an_editor_is_measured(folder: Path) -> None:
    options = "--places", "1", "--files", "3", "--model", folder / "tiny-llama"
    printed = run("lsp_latency.py", *options, home=folder)
    assert "cold, at another place" in printed and "ten keys a second: at most" in printed
    assert "the model is open after" in printed and "memory at the end" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has used is read as Linux tells it")
def test_the_screen_is_timed_in_a_real_terminal(tmp_path: Path) -> None:
    options = "--runs", "1", "--conversations", "2", "--messages", "20"
    *times, ratio = run("first_frame.py", *options, home=tmp_path).splitlines()
    assert [line.partition(" median")[0].strip() for line in times] == [
        *("smallest Textual app", "first frame", "last conversation")
    ]
    assert ratio.startswith("first frame / smallest Textual app: ")
    told = run("streaming.py", "--messages", "30", "--keys", "3", home=tmp_path)
    assert "% of a core" in told and "key to screen: median" in told
