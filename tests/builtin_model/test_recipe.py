"""The recipe of the built-in model, in short form: samples from a small corpus, training, interruption, a branch."""

import importlib
import json
import os
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from support.checkpoints import ROOT

RECIPE = ROOT / "packaging" / "builtin_model"
END, PREFIX, MIDDLE, SUFFIX, PAD, FILE_SEP = range(6)
STEPS = 5
STEP_TOKENS = 4096


def file_text(seed: str, lines: int) -> str:
    chance = random.Random(seed)
    verbs, nouns = ("read", "write", "merge", "split", "count"), ("lines", "words", "pages", "names", "files")
    text = "import collections\n"
    for number in range(lines // 4):
        verb, noun, other = chance.choice(verbs), chance.choice(nouns), chance.choice(nouns)
        head, body = f"def {verb}_{noun}_{number}(text, {other}):", f"found = {verb}({other}, text.{noun})"
        text += f"\n{head}\n    {body}\n    return found\n"
    return text


def run(script: str, *arguments: str | Path) -> str:
    """Runs a script of the recipe as its README does, and returns what it printed."""
    command = [sys.executable, RECIPE / f"{script}.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small corpus, its tokenizer and samples of both contexts."""
    work = tmp_path_factory.mktemp("work")
    for name, count in {"train": 8, "heldout_package": 2, "heldout_file": 2}.items():
        documents = ({"package": "p", "path": f"p/{n}.py", "text": file_text(f"{name}{n}", 240)} for n in range(count))
        (work / f"{name}.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    run("tokenizer", "--work", work)
    run("samples", "--work", work, "--context", "128", "--count", "6")
    run("samples", "--work", work, "--context", "256", "--count", "1")
    return work


def rows_of(work: Path, part: int) -> np.ndarray[Any, Any]:
    rows: np.ndarray[Any, Any] = np.load(work / "samples" / "128" / f"{part:05}.npy")
    return rows


def infilling_samples(work: Path) -> list[str]:
    """The samples made for infilling that a row has whole, put together again."""
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    samples = []
    for row in rows_of(work, 0).tolist():
        if row[0] == PREFIX and END in row:
            assert row[1] == SUFFIX
            parts = row[row.index(MIDDLE) + 1 : row.index(END)], row[2 : row.index(MIDDLE)]
            samples.append("".join(tokenizer.decode(part, skip_special_tokens=False) for part in parts))
    return samples


def test_parts_of_samples_are_the_same_each_time_and_differ_from_each_other(work: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "train.npy", "train_files.json"):
        (tmp_path / name).write_bytes((work / name).read_bytes())
    run("samples", "--work", tmp_path, "--context", "128", "--first", "1", "--count", "1")
    assert (rows_of(tmp_path, 1) == rows_of(work, 1)).all()
    assert rows_of(work, 0).dtype == np.uint16 and rows_of(work, 0).shape[1] == 129
    assert not np.array_equal(rows_of(work, 0)[:8], rows_of(work, 1)[:8])


def test_what_was_taken_apart_for_infilling_is_text_of_the_corpus_when_put_together(work: Path) -> None:
    corpus = "".join(json.loads(line)["text"] for line in (work / "train.jsonl").read_text().splitlines())
    samples = infilling_samples(work)
    assert len(samples) > 20
    assert all(sample in corpus for sample in samples)
    filled = sum(row[0] == PREFIX for row in rows_of(work, 1).tolist()) / len(rows_of(work, 1))
    assert 0.4 < filled < 0.75


def test_about_half_of_the_cuts_are_inside_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RECIPE)
    samples: Any = importlib.import_module("samples")
    text = file_text("cuts", 40)
    begins = [samples.cut(text, random.Random(seed))[0] for seed in range(2000)]
    inside = sum(re.fullmatch(r"\w\w", text[begin - 1 : begin + 1]) is not None for begin in begins)
    assert 0.42 < inside / len(begins) < 0.62


def test_texts_around_gaps_are_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all are as long as the context, the place of a token tells how soon its gap ends."""
    monkeypatch.syspath_prepend(RECIPE)
    samples: Any = importlib.import_module("samples")
    text = file_text("cuts", 80)
    parts = [samples.crop(text, random.Random(seed)) for seed in range(2000)]
    assert all(part in text for part in parts)
    tenths = np.histogram([len(part) for part in parts], 10, (samples.SHORTEST, len(text)))[0]
    assert tenths.min() > 150 and tenths.max() < 250
    assert samples.crop("short", random.Random(0)) == "short"


IN_TURN = """
import hashlib, json, runpy, sys
from pathlib import Path
trunk, commands = json.loads(sys.argv[1])
for sys.argv in commands:
    runpy.run_path(sys.argv[0], run_name="__main__")
    print("trunk", hashlib.sha256(Path(trunk, "state.pt").read_bytes()).hexdigest())
"""
"""Runs commands in one process, since torch takes seconds to load."""


def train(work: Path, folder: Path, *more: str | Path) -> list[str]:
    options = ("--size", "tiny", "--precision", "bf16", "--tokens", STEPS * STEP_TOKENS)
    command = (RECIPE / "train.py", "--work", work, "--run", folder, *options, *more)
    return [str(word) for word in command]


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


@dataclass
class Runs:
    """A trunk without interruption and a branch of it, and what the trunk's checkpoint was after either."""

    trunk: Path
    branch: Path
    states: list[str]


@pytest.fixture(scope="module")
def runs(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    pytest.importorskip("torch")
    trunk, branch = tmp_path_factory.mktemp("trunk"), tmp_path_factory.mktemp("branch")
    commands = [train(work, trunk), train(work, trunk, "--cool-down", "0.5", "--into", branch)]
    words = [sys.executable, "-c", IN_TURN, json.dumps([str(trunk), commands])]
    done = subprocess.run(words, cwd=RECIPE, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 2
    return Runs(trunk, branch, [line for line in done.stdout.splitlines() if line.startswith("trunk ")])


def test_a_run_that_is_killed_goes_on_with_the_same_rows_and_the_same_losses(
    work: Path, runs: Runs, tmp_path: Path
) -> None:
    endless = train(work, tmp_path, "--tokens", "inf", "--checkpoint-minutes", "0")
    with subprocess.Popen([sys.executable, *endless], env=environment(), stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "state.pt").exists() or len(steps_of(tmp_path)) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert 3 <= len(steps_of(tmp_path)) < STEPS
    subprocess.run([sys.executable, *train(work, tmp_path)], env=environment(), check=True, capture_output=True)
    assert steps_of(tmp_path) == steps_of(runs.trunk)
    assert len(steps_of(runs.trunk)) == STEPS and steps_of(runs.trunk)[-1]["positions"]["128"][0] > 0


def test_a_branch_cools_down_and_leaves_the_trunk_as_it_is(runs: Runs) -> None:
    assert len(runs.states) == 2 and len(set(runs.states)) == 1
    steps = steps_of(runs.branch)
    assert [line["step"] for line in steps] == list(range(STEPS + 1, 2 * STEPS + 1))
    assert steps[-1]["tokens"] == 2 * STEPS * STEP_TOKENS
    # The last of it is read in the long context.
    assert "256" in steps[-1]["positions"] and "256" not in steps[0]["positions"]


def test_a_run_is_averaged_with_the_model_that_it_began_with(runs: Runs, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    state = torch.load(runs.trunk / "state.pt", weights_only=True)
    shape, names = state["config"], ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    config = dict(zip(names, (shape[name] for name in ("dim", "layers", "heads", "kv_heads")), strict=True))
    config |= {"intermediate_size": shape["ffn"], "vocab_size": shape["vocabulary"]}
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": shape["context"]}))
    save_file(
        {f"model.{name}": torch.ones_like(w) for name, w in state["weights"].items()}, tmp_path / "model.safetensors"
    )
    run("blend", "--run", runs.trunk, "--before", tmp_path, "--share", "0.25", "--into", tmp_path / "mean")
    mean = torch.load(tmp_path / "mean" / "state.pt", weights_only=True)
    assert mean["run"]["share"] == 0.25 and mean["run"]["tokens"] == state["run"]["tokens"]
    assert all(torch.allclose(mean["weights"][n], 0.75 + 0.25 * w, atol=1e-6) for n, w in state["weights"].items())


def test_processes_that_share_each_step_take_the_steps_of_one(work: Path, runs: Runs, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, *train(work, tmp_path, "--processes", "2")], env=environment(), check=True, capture_output=True
    )
    shared, alone = steps_of(tmp_path), steps_of(runs.trunk)
    assert [line | {"loss": 0} for line in shared] == [line | {"loss": 0} for line in alone]
    # Gradients of bfloat16 are added up in another order.
    assert [line["loss"] for line in shared] == pytest.approx([line["loss"] for line in alone], abs=0.01)


def test_processes_that_share_steps_end_with_the_one_that_started_them(work: Path, runs: Runs, tmp_path: Path) -> None:
    endless = train(work, tmp_path, "--tokens", "inf", "--processes", "2")
    with subprocess.Popen([sys.executable, *endless], env=environment(), stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "steps.jsonl").exists() or not steps_of(tmp_path):
            assert process.poll() is None
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(children) >= 2
    while any(Path("/proc", child).exists() for child in children):
        time.sleep(0.05)


IN_ONE_PROCESS = """
import json
import sys
import torch
import torch.nn.functional as F
from grow import grown
from model import Config, Model, TiedCrossEntropy, causal_attention

torch.manual_seed(0)


def off(found, wanted):
    return float((found.float() - wanted).norm() / wanted.norm())


report = {}
hidden, weight = torch.randn(600, 64, requires_grad=True), (torch.randn(8192, 64) / 8).requires_grad_()
target = torch.randint(0, 8192, (600,)).masked_fill(torch.rand(600) < 0.3, -100)
wanted = F.cross_entropy(hidden @ weight.T, target)
wanted.backward()
for name in ("float32", "bfloat16"):
    rounded = [x.detach().to(getattr(torch, name)).requires_grad_() for x in (hidden, weight)]
    loss = TiedCrossEntropy.apply(*rounded, target)
    loss.backward()
    gradients = [off(mine.grad, own.grad) for mine, own in zip(rounded, (hidden, weight), strict=True)]
    report[name] = [off(loss.detach(), wanted.detach()), *gradients]
q, k, v = torch.randn(3, 2, 4, 300, 32)
report["attention"] = off(causal_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True))

small = Model(Config(dim=64, layers=2, heads=2, kv_heads=1, ffn=128)).eval()
for weight in small.parameters():
    torch.nn.init.normal_(weight, std=0.3)
larger = grown(small, Config(dim=256, layers=3, heads=4, kv_heads=2, ffn=200)).eval()
ids = torch.randint(6, 8000, (2, 40))
with torch.no_grad():
    old, new = (one.logits(one.hidden(ids)) for one in (small, larger))
report["grown"] = float(torch.corrcoef(torch.stack([old.flatten(), new.flatten()]))[0, 1])
print(json.dumps(report), flush=True)

sys.argv[0:1] = []
import train
train.main()
"""


@pytest.fixture(scope="module")
def odds(work: Path, runs: Runs) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """What a process found that compared parts of the recipe, then went on with the trunk as another size."""
    words = [sys.executable, "-c", IN_ONE_PROCESS, *train(work, runs.trunk, "--size", "small")]
    done = subprocess.run(words, cwd=RECIPE, capture_output=True, text=True, env=environment())
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done


def test_loss_and_attention_are_those_of_torch(odds: tuple[dict[str, Any], Any]) -> None:
    """Relative error of loss, its gradients by hidden state and weight, and attention; bfloat16 has 8 bits."""
    found, _ = odds
    assert max(found["float32"]) < 1e-5 and found["attention"] < 1e-5
    assert max(found["bfloat16"]) < 0.01


def test_a_model_grows_and_computes_nearly_the_same(odds: tuple[dict[str, Any], Any]) -> None:
    assert odds[0]["grown"] > 0.99


def test_a_run_goes_on_only_as_what_it_began_as(odds: tuple[Any, subprocess.CompletedProcess[str]]) -> None:
    done = odds[1]
    assert done.returncode == 1 and "this run has size 'tiny', not 'small'" in done.stderr
