"""Time chatapp and its peers in turns on this machine, and hold chatapp to its targets.

Every engine stays loaded in a process of its own, and they take turns measurement by measurement, so that a
disturbance of the machine meets all of them; each round starts new processes. Ratios are medians of pairs
taken within seconds of each other. Build the checkpoints and exports first: see README.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import exports
from machine import Bandwidth, busy_cores, last_core, neighbour
from models import MODELS, TIMED
from report import Entry, Report, Samples, Target, markdown

HERE = Path(__file__).parent
MEASUREMENTS = "decode", "first_token", "decode_5"
PRECISIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "int4": {
        "chatapp": ("int4", "int4-32"),
        "chatapp-openvino": ("int4",),
        "llama.cpp": ("q4_0p", "q4_0"),
        "onnxruntime-genai": ("int4",),
        "openvino-genai": ("int4",),
    },
    "int8": {
        "chatapp": ("int8",),
        "chatapp-openvino": ("int8",),
        "llama.cpp": ("q8_0",),
        "openvino-genai": ("int8",),
        "ctranslate2": ("int8",),
    },
    "f32": {"chatapp": ("f32",), "chatapp-openvino": ("f32",), "transformers": ("f32",)},
}
"""What each engine calls the precision; the first of each is the one that is held against the others."""
NEIGHBOURS = {"pinned neighbour": last_core(), "free neighbour": None}
"""The core that each holds, or any."""
STARTS = {"onnx": ("int4", 0.45), "openvino": ("int8", 0.75)}
"""For each backend whose second start is timed: the precision, and the seconds it may take."""
TARGETS = (
    ("chatapp", "llama.cpp", "int4", "decode", 1.25),
    ("chatapp", "llama.cpp", "int8", "decode", 1.05),
    ("chatapp", "llama.cpp", "int8", "first_token", 2.5),
    ("chatapp-openvino", "openvino-genai", "int4", "decode", 1.1),
    ("chatapp-openvino", "openvino-genai", "int8", "decode", 1.1),
    ("chatapp-openvino", "openvino-genai", "int4", "first_token", 1.2),
    ("chatapp-openvino", "openvino-genai", "int8", "first_token", 1.2),
)
"""How many times as fast as a peer an engine has to be, in what."""
PROMPT = "The quick brown fox jumps over"


class Worker:
    """An engine in a process of its own, asked for one measurement at a time; a context manager."""

    def __init__(self, folder: Path, entry: Entry):
        command = [sys.executable, str(HERE / "peers.py"), entry.engine, str(folder), entry.model, entry.precision]
        command += ["--serve", "--started", str(time.monotonic())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.entry = entry
        self.facts = self.answer()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.communicate()

    def measure(self, name: str) -> dict[str, float]:
        """A fresh sample: its `value`, and the process's `peak_memory`."""
        assert self.process.stdin
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:  # Any: JSON
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.entry.label}: exit code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def entries(folder: Path, model: str, precision: str, engines: Sequence[str]) -> tuple[list[Entry], list[Entry]]:
    """The entries of a model that can be timed, and those whose export is not there."""
    found: list[Entry] = []
    missing: list[Entry] = []
    for engine, names in PRECISIONS[precision].items():
        for entry in (Entry(model, engine, name) for name in names if engine in engines):
            there = engine not in exports.EXPORTS or exports.path(folder, engine, model, entry.precision).exists()
            (found if there else missing).append(entry)
    return found, missing


def compare(folder: Path, table: Sequence[Entry], bandwidth: Bandwidth, repeats: int) -> list[Samples]:
    """One round: start an engine for each entry, and let them take turns."""
    samples = [Samples(entry) for entry in table]
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(folder, entry)) for entry in table]
        pairs = list(zip(workers, samples, strict=True))
        for worker, sample in pairs:
            sample.version, sample.disk = worker.facts["version"], worker.facts["disk"]
            sample.load.append(worker.facts["load"])
            sample.bandwidth.append(bandwidth.measure(max(1, round(sample.disk))))
        for name in MEASUREMENTS:
            for repeat in range(repeats):
                for worker, sample in pairs[:: -1 if repeat % 2 else 1]:
                    answer = worker.measure(name)
                    sample.values.setdefault(name, []).append(answer["value"])
                    if name == "decode":
                        sample.peak_memory = answer["peak_memory"]
    return samples


def merge(rounds: Iterable[Samples]) -> list[Samples]:
    """The samples of all rounds, entry by entry."""
    merged: dict[Entry, Samples] = {}
    for new in rounds:
        old = merged.setdefault(new.entry, Samples(new.entry, new.version, new.disk))
        old.peak_memory = max(old.peak_memory, new.peak_memory)
        old.load += new.load
        old.bandwidth += new.bandwidth
        for name, values in new.values.items():
            old.values.setdefault(name, []).extend(values)
    return list(merged.values())


def start(folder: Path, model: str, precision: str, backend: str) -> tuple[float, float]:
    """Seconds from the start of `chatapp run` to the first character of its answer, and its peak memory in MB."""
    command = [sys.executable, "-m", "chatapp", "run", str(folder / model), PROMPT]
    command += ["--backend", backend, "--precision", precision, "--temperature", "0", "--max-tokens", "8"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent)
    assert process.stdout
    process.stdout.read(1)
    seconds = time.perf_counter() - started
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"chatapp run failed with exit code {process.returncode}")
    return seconds, usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def crowded(folder: Path, table: Sequence[Entry], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Decode speed alone, with a busy process pinned to one core, and with one that moves freely."""
    speeds: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(folder, entry)) for entry in table]
        for _ in range(repeats):
            for worker in workers:
                found = speeds.setdefault(worker.entry.label, {kind: [] for kind in ("alone", *NEIGHBOURS)})
                found["alone"].append(worker.measure("decode")["value"])
                for kind, core in NEIGHBOURS.items():
                    with neighbour(core):
                        found[kind].append(worker.measure("decode")["value"])
    return speeds


def ratios(samples: Sequence[Samples], model: str, precision: str, name: str, engines: tuple[str, str]) -> list[float]:
    """How many times as fast the first engine is as the second, pair by pair."""
    found = {sample.entry: sample.values[name] for sample in samples}
    entries = [Entry(model, engine, PRECISIONS[precision][engine][0]) for engine in engines]
    ours, theirs = (found.get(entry, []) for entry in entries)
    return [b / a if name == "first_token" else a / b for a, b in zip(ours, theirs, strict=False)]


def targets(report: Report) -> list[Target]:
    """What chatapp has to reach, with what it reached; only what was measured."""
    found = []
    for model in report.models:
        for engine, peer, precision, measurement, goal in TARGETS:
            values = ratios(report.samples, model, precision, measurement, (engine, peer))
            what = "prefill" if measurement == "first_token" else measurement
            name = f"{model}: {engine}, {what} at {precision}, times {peer}"
            found.append(Target(name, values, goal, at_least=True))
    for backend, (precision, goal) in STARTS.items():
        run = f"{report.models[0]} {precision}: chatapp run on {backend}"
        seconds, memory = report.start_seconds.get(backend, []), report.start_memory.get(backend, [])
        found.append(Target(f"{run}, start to first token, second start, s", seconds, goal))
        if backend == "onnx":
            found.append(Target(f"{run}, peak memory, MB", memory, 180))
    for label, speeds in report.crowded.items():
        if "chatapp" in label:
            for kind in NEIGHBOURS:
                lost = [100 * (1 - b / a) for a, b in zip(speeds["alone"], speeds[kind], strict=True)]
                found.append(Target(f"{label}: speed lost to a {kind}, %", lost, 35))
    return [target for target in found if target.values]


def measure(arguments: argparse.Namespace) -> Report:
    """Run everything that was asked for."""
    folder: Path = arguments.folder
    bandwidth = Bandwidth()
    report = Report(arguments.models, bandwidth.how)
    rounds: list[Samples] = []
    for number in range(arguments.rounds):
        for model in arguments.models:
            report.bandwidth.append(bandwidth.measure(1024))
            report.others.append(busy_cores())
            for precision in arguments.precisions:
                table, missing = entries(folder, model, precision, arguments.engines)
                if number == 0:
                    missing += [entry for entry in table if not usable(folder, entry)]
                    report.missing += [entry.label for entry in missing]
                table = [entry for entry in table if entry.label not in report.missing]
                rounds += compare(folder, table, bandwidth, arguments.repeats)
                print(f"round {number + 1}: {model} {precision}", file=sys.stderr)
    report.samples = merge(rounds)
    first = arguments.models[0]
    for engine, backend in ("chatapp", "onnx"), ("chatapp-openvino", "openvino"):
        precision, _ = STARTS[backend]
        if engine in arguments.engines and precision in arguments.precisions:
            start(folder, first, precision, backend)
            runs = [start(folder, first, precision, backend) for _ in range(2 * arguments.rounds * arguments.repeats)]
            report.start_seconds[backend], report.start_memory[backend] = map(list, zip(*runs, strict=True))
    if "chatapp" in arguments.engines and "int4" in arguments.precisions:
        pair = [Entry(first, engine, PRECISIONS["int4"][engine][0]) for engine in ("chatapp", "llama.cpp")]
        timed = [sample.entry for sample in report.samples]
        report.crowded = crowded(folder, [entry for entry in pair if entry in timed], arguments.repeats + 1)
    report.targets = targets(report)
    return report


def usable(folder: Path, entry: Entry) -> bool:
    """Start an engine untimed: chatapp lowers the model now, the files get cached, and a peer may turn out to fail."""
    try:
        with Worker(folder, entry):
            return True
    except RuntimeError:
        if entry.engine.startswith("chatapp"):
            raise
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder given to checkpoints.py")
    parser.add_argument("--models", nargs="+", default=TIMED, choices=MODELS)
    parser.add_argument("--engines", nargs="+", default=["chatapp", "chatapp-openvino", "llama.cpp"], help="or `all`")
    parser.add_argument("--precisions", nargs="+", default=["int4", "int8"], choices=PRECISIONS)
    parser.add_argument("--rounds", type=int, default=2, help="times the processes are started anew")
    parser.add_argument("--repeats", type=int, default=2, help="samples per process")
    parser.add_argument("--short", action="store_true", help="the first model only, one round of one sample")
    parser.add_argument("--output", type=Path, help="write this file as JSON, and a table beside it (.md)")
    arguments = parser.parse_args()
    if arguments.engines == ["all"]:
        arguments.engines = list({engine: None for names in PRECISIONS.values() for engine in names})
    if arguments.short:
        arguments.models, arguments.rounds, arguments.repeats = arguments.models[:1], 1, 1
    arguments.folder = arguments.folder.absolute()
    os.environ.setdefault("CHATAPP_HOME", str(arguments.folder / "chatapp"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    report = measure(arguments)
    print(markdown(report))
    if arguments.output:
        arguments.output.write_text(json.dumps(asdict(report), indent=1))
        arguments.output.with_suffix(".md").write_text(markdown(report) + "\n")


if __name__ == "__main__":
    main()
