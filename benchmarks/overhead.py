"""What the engine and `chatapp run` add to the time per token of the bare session."""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
PROMPT = "The quick brown fox jumps over the lazy dog"
GOAL = 5.0
"""Percent that `chatapp run` may add."""


def bare(model: str, precision: str | None, count: int) -> float:
    """Seconds per token of `Session.forward` and an argmax."""
    import numpy as np

    from chatapp import settings
    from chatapp.selection import Wish, open_engine
    from model_store import Store

    engine = open_engine(Store(settings.models()), model, Wish("onnx", precision=precision))
    session = engine.session
    token = session.forward(np.array([engine.tokenizer.encode(PROMPT)]))[:, -1].argmax(-1)
    start = time.perf_counter()
    for _ in range(count - 1):
        token = session.forward(token[:, None])[:, -1].argmax(-1)
    return (time.perf_counter() - start) / (count - 1)


def engine(model: str, precision: str | None, count: int, logprobs: int | None = None) -> float:
    """Seconds per token of iterating over an engine's deltas, with the options `chatapp run` has by default."""
    from chatapp import settings
    from chatapp.generation import Options
    from chatapp.selection import Wish, open_engine
    from model_store import Store

    loaded = open_engine(Store(settings.models()), model, Wish("onnx", precision=precision))
    deltas = loaded.complete(PROMPT, Options(max_tokens=count, seed=0, logprobs=logprobs))
    made = len(next(deltas).tokens)
    start = time.perf_counter()
    rest = sum(len(delta.tokens) for delta in deltas)
    if made + rest != count:
        raise RuntimeError(f"{made + rest} tokens, not {count}: end of text was drawn; try again")
    return (time.perf_counter() - start) / rest


def alternatives(model: str, precision: str | None, count: int) -> float:
    """The same with five alternatives for each token, as the screen has them."""
    return engine(model, precision, count, logprobs=5)


def command(model: str, precision: str | None, count: int) -> float:
    """Seconds per token of `chatapp run`, from its first to its last output."""
    arguments = ["run", model, PROMPT, "--max-tokens", str(count), "--seed", "0", "--backend", "onnx"]
    arguments += ["--precision", precision] if precision else []
    process = subprocess.Popen([sys.executable, "-m", "chatapp", *arguments], stdout=subprocess.PIPE, cwd=HERE.parent)
    assert process.stdout
    times = []
    while os.read(process.stdout.fileno(), 4096):
        times.append(time.perf_counter())
    if process.wait():
        raise RuntimeError(f"chatapp run failed with exit code {process.returncode}")
    return (times[-1] - times[0]) / (count - 1)


WAYS: dict[str, Callable[[str, str | None, int], float]] = {
    "bare session": bare,
    "engine": engine,
    "engine, logprobs=5": alternatives,
    "chatapp run": command,
}


def once(way: str, arguments: argparse.Namespace) -> float:
    """One sample, in a process of its own."""
    code = [sys.executable, __file__, arguments.model, "--tokens", str(arguments.tokens), "--only", way]
    code += ["--precision", arguments.precision] if arguments.precision else []
    return float(subprocess.run(code, stdout=subprocess.PIPE, check=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder made by checkpoints.py, or builtin")
    parser.add_argument("--precision", help="int4, unless the model is builtin")
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=WAYS, help="print the seconds per token of one way, once")
    arguments = parser.parse_args()
    if arguments.model != "builtin":
        folder = Path(arguments.model).absolute()
        arguments.model, arguments.precision = str(folder), arguments.precision or "int4"
        os.environ.setdefault("CHATAPP_HOME", str(folder.parent / "chatapp"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    if arguments.only:
        print(WAYS[arguments.only](arguments.model, arguments.precision, arguments.tokens))
        return
    samples: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(arguments.rounds):
        for way in list(WAYS)[:: -1 if number % 2 else 1]:
            samples[way].append(once(way, arguments))
    for way, values in samples.items():
        added = [100 * (value / least - 1) for value, least in zip(values, samples["bare session"], strict=True)]
        verdict = "" if way != "chatapp run" else "  pass" if statistics.median(added) <= GOAL else "  MISS"
        middle, low, high = (1e3 * f(values) for f in (statistics.median, min, max))
        print(f"{way:18}  {middle:6.3f} ms a token ({low:.3f} to {high:.3f})", end="")
        print(f"  {statistics.median(added):+5.1f} % ({min(added):+.1f} to {max(added):+.1f}){verdict}")


if __name__ == "__main__":
    main()
