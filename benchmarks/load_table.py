"""Build, lower, load and run full-size checkpoints, one after the other; each step in a process of its own."""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from models import MODELS

from backends.processor import cores, processor

HERE = Path(__file__).parent
MEASURED = tuple(name for name in MODELS if not name.startswith("tiny"))
PROMPT, CONTEXT, STEPS = 8, 64, 32
"""Tokens of the prompt whose answer is waited for, of that before decoding, and how many are then decoded."""
BEGIN, END = "<!-- measured -->", "<!-- end -->"
"""What stands around the table in a document."""
Figures = dict[str, Any]  # Any: JSON


def lower(folder: Path, precision: str | None) -> Figures:
    """Lower a checkpoint, in this process."""
    store, name = open_store(), str(folder)
    from chatapp.generation.memory import peak_memory

    model = store.get(name)
    variant = store.lowered(model, "onnx", precision)
    return {
        "parameters": model.parameters,
        "checkpoint": model.size,
        "precision": variant.precision,
        "lowering_seconds": variant.seconds,
        "lowering_memory": peak_memory(),
        "size": variant.size,
    }


def load(folder: Path, precision: str | None, cold: bool) -> Figures:
    """Load what was lowered, and generate, in this process; `cold`: from the disk."""
    from machine import busy_cores

    import backends
    from chatapp.evaluation.bench import forget
    from chatapp.evaluation.timing import random_tokens
    from chatapp.generation.memory import peak_memory

    store = open_store()
    variant = store.lowered(store.get(str(folder)), "onnx", precision)
    if cold:
        forget(variant.folder)
    others = busy_cores()
    start = time.perf_counter()
    session = backends.get("onnx").load(variant.folder, device="cpu")
    loaded = time.perf_counter()
    logits = session.forward(random_tokens(session, 1, PROMPT, 0))
    first = time.perf_counter()
    session.rewind(0)
    session.forward(random_tokens(session, 1, CONTEXT, 1))
    steps = []
    for token in random_tokens(session, 1, STEPS, 2).T:
        began = time.perf_counter()
        logits = session.forward(token[None])
        steps.append(time.perf_counter() - began)
    assert all(math.isfinite(value) for value in logits.flat) and logits.std() > 0.01, "no model answers like this"
    return {
        "load": loaded - start,
        "first_token": first - loaded,
        "step": median(steps),
        "last_step": steps[-1],
        "memory": peak_memory(),
        "others": others,
    }


def open_store() -> Any:  # Any: imported here, so that the parent, whose memory a child's peak begins with, stays small
    from chatapp.settings import settings
    from model_store import Store

    return Store(settings.home() / "models")


def child(script: str, *arguments: str | Path) -> str:
    """What a script prints, run in a process of its own."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def measure(folder: Path, precision: str | None, rounds: int) -> Figures:
    """Every figure of one checkpoint."""
    given = ["--precision", precision] if precision else []

    def step(name: str) -> Figures:
        found: Figures = json.loads(child("load_table.py", folder, "--step", name, *given))
        return found

    try:
        return step("lower") | {kind: [step(kind) for _ in range(rounds)] for kind in ("cold", "warm")}
    finally:
        child("load_table.py", folder, "--step", "remove")


def table(results: dict[str, Figures]) -> str:
    """The results in Markdown."""
    every = [sample for one in results.values() for sample in one["cold"] + one["warm"]]
    others = [sample["others"] for sample in every if sample["others"] is not None]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9 if hasattr(os, "sysconf") else 0
    heads = (
        "model", "parameters, M", "checkpoint, MB", "precision", "lowering, s", "its peak memory, MB", "on disk, MB",
        "first load, s", "second load, s", "peak memory, MB", "first token, ms", "a token, ms", "tokens/s",
    )  # fmt: skip
    lines = [
        f"{processor()}, {cores()} cores, {memory:.0f} GB, Python {sys.version.split()[0]}, onnxruntime "
        f"{version('onnxruntime')}; {time.strftime('%Y-%m-%d')}. Cores that other processes used meanwhile: "
        f"{median(others or [0]):.1f} ({min(others or [0]):.1f}-{max(others or [0]):.1f}).",
        "",
        "| " + " | ".join(heads) + " |",
        "| --- | --- | --- | --- " + "| ---: " * (len(heads) - 4) + "|",
    ]
    for name in (name for name in MODELS if name in results):
        one, warm = results[name], results[name]["warm"]
        best = min(sample["step"] for sample in warm)
        cells = (
            name, f"{one['parameters'] / 1e6:,.0f}", f"{one['checkpoint'] / 1e6:,.0f}", one["precision"],
            f"{one['lowering_seconds']:.1f}", f"{one['lowering_memory'] / 1e6:,.0f}", f"{one['size'] / 1e6:,.0f}",
            seconds([sample["load"] for sample in one["cold"]]), seconds([sample["load"] for sample in warm]),
            f"{max(sample['memory'] for sample in warm) / 1e6:,.0f}",
            f"{min(sample['first_token'] for sample in warm) * 1e3:,.0f}", f"{best * 1e3:.3g}", f"{1 / best:.3g}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seconds(samples: list[float]) -> str:
    """The median, and the extremes where there are several."""
    extremes = f" ({min(samples):.2f}-{max(samples):.2f})" if len(samples) > 1 else ""
    return f"{median(samples):.2f}{extremes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where checkpoints are built, each deleted after its turn")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MEASURED, help="all by default")
    parser.add_argument("--precision", help="instead of the one that each model has by default")
    parser.add_argument("--rounds", type=int, default=3, help="loads of each kind (default: 3)")
    parser.add_argument("--output", type=Path, help=f"a document whose text between {BEGIN} and {END} is replaced")
    parser.add_argument("--step", choices=("lower", "cold", "warm", "remove"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step == "lower":
        print(json.dumps(lower(given.folder, given.precision)))
    elif given.step == "remove":
        open_store().remove(str(given.folder))
    elif given.step:
        print(json.dumps(load(given.folder, given.precision, given.step == "cold")))
    elif given.output and not given.output.is_file():
        parser.error(f"there is no document {given.output}, in which the table could be replaced")
    else:
        measure_all(given)


def measure_all(given: argparse.Namespace) -> None:
    """Measure each model, keep the figures in load_times.json, and print the table of all that are there."""
    os.environ.setdefault("CHATAPP_HOME", str(given.folder / "chatapp"))
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / "load_times.json"
    results: dict[str, Figures] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in given.models:
        folder = given.folder / name
        is_mine = not folder.exists()
        try:
            if is_mine:
                child("checkpoints.py", given.folder, "--models", name)
            results[name] = measure(folder, given.precision, given.rounds)
        finally:
            if is_mine:
                shutil.rmtree(folder, ignore_errors=True)
        kept.write_text(json.dumps(results, indent=1))
        print(table({name: results[name]}), flush=True)
    if given.output:
        before, _, rest = given.output.read_text().partition(BEGIN)
        given.output.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
