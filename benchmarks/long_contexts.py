"""Time engines after short and long prompts: decoding, reading the prompt, and the memory that it takes at most.

Every engine stays loaded in a process of its own, and they take turns, so that a disturbance of the machine meets all
of them. `--before` names another clone of chatapp, with an environment in its .venv, that takes its turns too.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers

LONGEST = {"gpt2": 900, "qwen2.5-0.5b": 3900}
"""The longest prompt of each model that is timed; of others half of the context."""
PRECISIONS = {"int4": {"llama.cpp": "q4_0p"}, "int8": {"llama.cpp": "q8_0"}}
"""What engines call a precision, where they have a name of their own."""
GOALS = (
    ("decode", "gpt2", 900, "int4", "llama.cpp", 1.8),
    ("decode", "gpt2", 900, "int8", "llama.cpp", 1.6),
    ("decode", "qwen2.5-0.5b", 3900, "int4", "llama.cpp", 1.4),
    ("decode", "qwen2.5-0.5b", 3900, "int8", "llama.cpp", 1.6),
    ("prefill", "qwen2.5-0.5b", 3900, "int4", "openvino-genai", 1.25),
    ("prefill", "qwen2.5-0.5b", 3900, "int8", "openvino-genai", 1.25),
    ("memory", "qwen2.5-0.5b", 3900, "int4", "llama.cpp", 1.0),
    ("memory", "qwen2.5-0.5b", 3900, "int8", "llama.cpp", 1 / 1.25),
)
"""How many times as fast, or as small, as a peer the better of our two backends has to be."""


Clock = Callable[[], float]


def read_and_decode(engine: peers.Engine, prompt: list[int], count: int, clock: Clock) -> tuple[float, float]:
    """Seconds for reading a prompt, and tokens per second after it."""
    if isinstance(engine, peers.OpenVINOGenai):
        return ask_pipeline(engine, prompt, count, clock)
    start = clock()
    if isinstance(engine, peers.LlamaCpp):
        token = start_llama(engine, prompt)
    else:
        assert isinstance(engine, peers.Chatapp)
        token = start_session(engine, prompt)
    read = clock()
    for place in range(len(prompt), len(prompt) + count):
        if isinstance(engine, peers.LlamaCpp):
            engine.decode([(token, place, [0], True)])
            token = engine.best(0)
        else:
            import numpy as np

            token = int(engine.session.forward(np.array([[token]]))[0, -1].argmax())
    return read - start, count / (clock() - read)


def start_session(engine: peers.Chatapp, prompt: list[int]) -> int:
    from chatapp.generation.decoding.generate import split_prompt

    engine.session.rewind(0)
    for part in split_prompt(engine.session, prompt):
        logits = engine.session.forward(part)
    return int(logits[0, -1].argmax())


def start_llama(engine: peers.LlamaCpp, prompt: list[int], size: int = 512) -> int:
    engine.library.llama_memory_clear(engine.library.llama_get_memory(engine.context), True)
    for start in range(0, len(prompt), size):
        part = prompt[start : start + size]
        engine.decode([(token, start + i, [0], i == len(part) - 1) for i, token in enumerate(part)])
    return engine.best(len(part) - 1)


def ask_pipeline(engine: peers.OpenVINOGenai, prompt: list[int], count: int, clock: Clock) -> tuple[float, float]:
    import numpy as np

    times: list[float] = []

    class Streamer(engine.library.StreamerBase):  # type: ignore[misc, name-defined]  # an untyped package
        def write(self, token: object) -> object:
            times.append(clock())
            return engine.library.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    tokens = np.array([prompt], np.int64)
    inputs = engine.library.TokenizedInputs(engine.runtime.Tensor(tokens), engine.runtime.Tensor(np.ones_like(tokens)))
    options = engine.library.GenerationConfig()
    options.max_new_tokens = options.min_new_tokens = count + 1
    options.ignore_eos, options.do_sample = True, False
    started = clock()
    engine.pipeline.generate(inputs, options, Streamer())
    peers.expect(len(times), count + 1)
    return times[0] - started, count / (times[-1] - times[0])


def lower(folder: Path, model: str, precision: str, backend: str) -> None:
    """Lower a model, if nobody has, while all cores may be used, and while nothing is measured."""
    from chatapp.settings import settings
    from model_store import Store

    store = Store(settings.home() / "models")
    store.lowered(store.get(str(folder / model)), backend, precision)


def serve(arguments: argparse.Namespace) -> None:
    """Load an engine, and answer each line, a length and a count, with what they took."""
    peers.CONTEXT = arguments.longest + 192
    name, folder = arguments.serve, arguments.folder
    clock: Clock = time.perf_counter
    allowed = os.sched_getaffinity(0)
    if name in OURS:
        lower(folder, arguments.models[0], arguments.precisions[0], "onnx" if name == "chatapp" else "openvino")
    if arguments.processor_time:  # each engine has as many threads as it may use cores
        peers.THREADS, clock = 1, time.process_time
        os.sched_setaffinity(0, {min(allowed)})
    engine = peers.ENGINES[name](folder, arguments.models[0], arguments.precisions[0])
    os.sched_setaffinity(0, allowed)
    if arguments.processor_time and isinstance(engine, peers.Chatapp):
        vars(engine.session)["adapt"] = lambda: None  # loading anew, for others' sake, would be counted
    read_and_decode(engine, random.choices(peers.TOKENS, k=8), 2, clock)
    print(json.dumps({"version": engine.version}), flush=True)
    for line in sys.stdin:
        length, count = map(int, line.split())
        prefill, decode = read_and_decode(engine, random.choices(peers.TOKENS, k=length), count, clock)
        print(json.dumps({"prefill": prefill, "decode": decode, "memory": peers.peak_memory()}), flush=True)
    os._exit(0)  # some engines take long, or crash, when they are torn down


@dataclass
class Worker:
    """An engine in a process of its own, and what it took at each length."""

    label: str
    process: subprocess.Popen[str]
    samples: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    def answer(self) -> dict[str, Any]:  # Any: JSON
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"exit code {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def measure(self, length: int, count: int) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{length} {count}\n")
        self.process.stdin.flush()
        self.samples.setdefault(length, []).append(self.answer())


def start(arguments: argparse.Namespace, label: str, model: str, precision: str) -> Worker:
    """A worker for `label`: an engine, or one of ours as it was `before`."""
    engine, _, old = label.partition(", ")
    tree = arguments.before if old else Path(__file__).parents[1]
    python = tree / ".venv/bin/python" if old else arguments.python.get(engine, sys.executable)
    home = arguments.folder / ("chatapp-before" if old else "chatapp")
    named = PRECISIONS[precision].get(engine, precision)
    command = [python, __file__, arguments.folder, "--serve", engine, "--models", model, "--precisions", named]
    command += ["--longest", arguments.longest or LONGEST.get(model, 512)]
    command += ["--processor-time"] if arguments.processor_time else []
    environment = os.environ | {"CHATAPP_HOME": str(home), "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "2"}
    pipe = subprocess.PIPE
    process = subprocess.Popen([str(part) for part in command], stdin=pipe, stdout=pipe, text=True, env=environment)
    return Worker(label, process)


def tell(values: Sequence[float], digits: int = 2) -> str:
    """The median of values, the least and the largest."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def compare(arguments: argparse.Namespace, model: str, precision: str) -> None:
    """Let all engines take turns with one model, and print what they took and how the first ones compare."""
    longest = arguments.longest or LONGEST.get(model, 512)
    lengths = sorted({min(length, longest) for length in (64, 900, longest)})
    workers: list[Worker] = []
    with ExitStack() as stack:
        for label in arguments.engines + [
            f"{one}, before" for one in arguments.engines if one in OURS and arguments.before
        ]:
            try:
                if label.split(", ")[0] in OURS:  # lowers the model, which would count as memory
                    first = start(arguments, label, model, precision)
                    first.answer()
                    first.process.communicate()
                worker = start(arguments, label, model, precision)
                stack.callback(worker.process.communicate)
                worker.answer()
                workers.append(worker)
            except (RuntimeError, OSError) as error:
                print(f"- {model} {precision}: no {label}: {error}")
        for length in lengths:
            for turn in range(arguments.rounds):
                for worker in workers if turn % 2 else workers[::-1]:
                    worker.measure(length, arguments.tokens)
    for worker in workers:
        for length, samples in worker.samples.items():
            decode, prefill = ([sample[what] for sample in samples] for what in ("decode", "prefill"))
            figures = tell(decode, 1), tell(prefill), f"{samples[-1]['memory']:.0f}"
            print(f"| {model} {precision} | {length} | {worker.label} | {' | '.join(figures)} |")
    found = {worker.label: worker.samples for worker in workers}
    for ours in OURS:
        if ours in found and f"{ours}, before" in found:
            for length in lengths:
                for what in "decode", "prefill", "memory":
                    values = tell(ratios(found[ours][length], found[f"{ours}, before"][length], what))
                    print(f"- {model} {precision}, {length} tokens: {ours}, {what}, times before: {values}")
    for what, name, length, rounded, peer, goal in GOALS:
        if (name, rounded) == (model, precision) and peer in found and length in lengths:
            tried = {one: ratios(found[one][length], found[peer][length], what) for one in OURS if one in found}
            best = max(tried, key=lambda one: statistics.median(tried[one]))
            passed = "pass" if statistics.median(tried[best]) >= goal else "MISS"
            print(
                f"- {model} {precision}, {length} tokens: {best}, {what}, times {peer}: {tell(tried[best])}, "
                f"at least {goal:g}: {passed}"
            )


OURS = ("chatapp", "chatapp-openvino")


def ratios(ours: Sequence[dict[str, float]], theirs: Sequence[dict[str, float]], what: str) -> list[float]:
    """How many times as fast, or as small, ours is, turn by turn."""
    pairs = [(a[what], b[what]) for a, b in zip(ours, theirs, strict=True)]
    return [a / b if what == "decode" else b / a for a, b in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder given to checkpoints.py")
    parser.add_argument("--models", nargs="+", default=list(LONGEST))
    parser.add_argument("--precisions", nargs="+", default=["int4", "int8"])
    parser.add_argument("--engines", nargs="+", default=[*OURS, "llama.cpp", "openvino-genai"])
    parser.add_argument("--python", nargs="+", default=[], metavar="ENGINE=PROGRAM", help="Python with a peer in it")
    parser.add_argument("--before", type=Path, help="another clone of chatapp")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32, help="decoded after each prompt")
    parser.add_argument("--longest", type=int, default=0, help="tokens of the longest prompt")
    parser.add_argument(
        "--processor-time", action="store_true", help="one thread each, by its clock: for busy machines"
    )
    parser.add_argument("--serve", metavar="ENGINE", help="be the process of an engine")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    arguments.python = dict(each.split("=", 1) for each in arguments.python)
    if arguments.serve:
        return serve(arguments)
    print(
        "| model | prompt | engine | decode, tokens/s | prompt, s | peak, MB |\n| --- | --- | --- | --- | --- | --- |"
    )
    for model in arguments.models:
        for precision in arguments.precisions:
            compare(arguments, model, precision)


if __name__ == "__main__":
    main()
