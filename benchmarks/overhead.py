"""What the engine and `chatapp run` add to the time per token of the bare session.

They take turns in one process, with one loaded model: between two processes, the same model's speed differs by more
than what is looked for here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from chatapp.generation import Delta, Options
    from chatapp.generation.engine import Engine

PROMPT = "The quick brown fox jumps over the lazy dog"
GOAL = 5.0
"""Percent that `chatapp run` may add."""

Way = Callable[["Engine", int], float]
"""Seconds per token, of so many, after the first."""


def bare(engine: "Engine", count: int) -> float:
    """Of `Session.forward` and an argmax."""
    import numpy as np

    session = engine.session
    session.rewind(0)
    token = session.forward(np.array([engine.tokenizer.encode(PROMPT)]))[:, -1].argmax(-1)
    start = time.perf_counter()
    for _ in range(count - 1):
        token = session.forward(token[:, None])[:, -1].argmax(-1)
    return (time.perf_counter() - start) / (count - 1)


def drawn(engine: "Engine", count: int, logprobs: int | None = None) -> float:
    """Of iterating over an engine's deltas, with the options `chatapp run` has by default."""
    from chatapp.generation import Options

    deltas = engine.complete(PROMPT, Options(max_tokens=count, seed=0, logprobs=logprobs))
    made = len(next(deltas).tokens)
    start = time.perf_counter()
    rest = sum(len(delta.tokens) for delta in deltas)
    check(made + rest, count)
    return (time.perf_counter() - start) / rest


def printed(engine: "Engine", count: int) -> float:
    """Of `chatapp run` from its first token to its end, in a pipe to another process."""
    from chatapp.cli import main, run
    from chatapp.workspace import Opened

    came: list[tuple[float, int]] = []
    complete = engine.complete

    def noted(text: str, options: "Options") -> "Generator[Delta, None, None]":
        for delta in complete(text, replace(options, stop=())):  # builtin ends at an empty line
            came.append((time.perf_counter(), len(delta.tokens)))
            yield delta

    arguments = ["run", "model", PROMPT, "--max-tokens", str(count), "--seed", "0", "--repetition-penalty", "1"]
    opened = patch.object(run, "open_model", lambda *_, **__: Opened(engine, "model", 1, 0.0))
    with opened, patch.object(engine, "complete", noted), piped():
        if main.main(arguments):
            raise RuntimeError("chatapp run failed")
        end = time.perf_counter()
    check(sum(tokens for _, tokens in came), count)
    return (end - came[0][0]) / (count - 1)


def check(made: int, count: int) -> None:
    """Refuse an answer that ended by itself."""
    if made != count:
        raise RuntimeError(f"{made} tokens, not {count}: end of text was drawn; try another --tokens")


@contextmanager
def piped() -> Iterator[None]:
    """Inside, standard output goes to a process that reads it as it comes."""
    sys.stdout.flush()
    before = os.dup(1)
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin
    try:
        os.dup2(reader.stdin.fileno(), 1)
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
        reader.stdin.close()
        reader.wait()


WAYS: dict[str, Way] = {
    "bare session": bare,
    "engine": drawn,
    "engine, logprobs=5": partial(drawn, logprobs=5),  # as the screen has them
    "chatapp run": printed,
}


def in_turns(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Every way once in each turn, after one that is not counted; the order changes."""
    from chatapp.placement.opening import open_engine
    from chatapp.placement.selection import PlacementOptions
    from chatapp.settings import settings
    from model_store import Store

    where = PlacementOptions("onnx", precision=arguments.precision)
    engine = open_engine(Store(settings.home() / "models"), arguments.model, where)
    names = list(WAYS)
    turns = []
    for turn in range(arguments.turns + 1):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        turns.append({name: WAYS[name](engine, arguments.tokens) for name in order})
    return turns[1:]


def in_process(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """The same in a process of its own."""
    code = [sys.executable, __file__, arguments.model, "--here"]
    code += ["--tokens", str(arguments.tokens), "--turns", str(arguments.turns)]
    code += ["--precision", arguments.precision] if arguments.precision else []
    found: list[dict[str, float]] = json.loads(subprocess.run(code, stdout=subprocess.PIPE, check=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder made by checkpoints.py, or builtin")
    parser.add_argument("--precision", help="int4, unless the model is builtin")
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=5, help="processes")
    parser.add_argument("--turns", type=int, default=8, help="of all ways, in each process")
    parser.add_argument("--here", action="store_true", help="one round in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.model != "builtin":
        folder = Path(arguments.model).absolute()
        arguments.model, arguments.precision = str(folder), arguments.precision or "int4"
        os.environ.setdefault("CHATAPP_HOME", str(folder.parent / "chatapp"))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    if arguments.here:
        print(json.dumps(in_turns(arguments)))
        return
    rounds = [in_process(arguments) for _ in range(arguments.rounds)]
    turns = [turn for found in rounds for turn in found]
    for way in WAYS:
        middle, low, high = (1e3 * f(turn[way] for turn in turns) for f in (statistics.median, min, max))
        print(f"{way:18}  {middle:6.3f} ms a token ({low:.3f} to {high:.3f})", end="")
        each = [added(found, way) for found in rounds]
        print(f"  {added(turns, way):+5.1f} % (in each process {min(each):+.1f} to {max(each):+.1f})", end="")
        print("" if way != "chatapp run" else "  pass" if added(turns, way) <= GOAL else "  MISS")


def added(turns: list[dict[str, float]], way: str) -> float:
    """Percent of the bare session's time, the median of all turns."""
    return statistics.median(100 * (turn[way] / turn["bare session"] - 1) for turn in turns)


if __name__ == "__main__":
    main()
