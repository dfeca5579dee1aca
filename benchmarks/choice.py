"""Whether the place that chatapp chooses for a model is the fastest: the choice, and each candidate timed again."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

GOAL = 5.0
"""Percent by which the choice may be slower than the fastest candidate."""
TIMED = ("chat", "completion")


def once(folder: str, backend: str, device: str, precision: str) -> dict[str, float]:
    """Seconds that each objective's prompt and answer take, loaded and warm; of completion in as many rows as timed."""
    import numpy as np

    from chatapp.placement.opening import open_engine
    from chatapp.placement.record import MANY
    from chatapp.placement.selection import WORKLOADS, PlacementOptions
    from chatapp.settings import settings
    from model_store import Store

    engine = open_engine(Store(settings.home() / "models"), folder, PlacementOptions(backend, device, precision))
    session, random, seconds = engine.session, np.random.default_rng(0), {}
    for name in (*TIMED, *TIMED):  # the first of each warms up
        prompt, answer = WORKLOADS[name]
        tokens = random.integers(0, session.vocab_size, (1, prompt + answer))
        session.rewind(0)
        start = time.perf_counter()
        session.forward(tokens[:, :prompt])
        rows = MANY if name == "completion" else 1
        session.reorder([0] * rows)
        for place in range(prompt, prompt + answer - 1):
            session.forward(tokens[:, place : place + 1].repeat(rows, axis=0))
        seconds[name] = time.perf_counter() - start
    return seconds


def again(arguments: argparse.Namespace, *candidate: str) -> dict[str, float]:
    """The same, by a process of its own."""
    code = [sys.executable, __file__, str(arguments.folder), "--only", arguments.model, *candidate]
    found: dict[str, float] = json.loads(subprocess.run(code, stdout=subprocess.PIPE, check=True).stdout)
    return found


def compare(arguments: argparse.Namespace, model: str) -> None:
    """Let chatapp choose, then time every candidate in turn, and print how far the choice is from the fastest."""
    from chatapp.placement.measuring import measure_all
    from chatapp.placement.selection import PlacementOptions, rank
    from chatapp.settings import settings
    from model_store import Store

    store = Store(settings.home() / "models")
    stored = store.get(str(arguments.folder / model))
    found = measure_all(store, stored, PlacementOptions(), anew=True)
    arguments.model = model
    candidates = [(one.placement.backend, one.placement.device, one.placement.precision) for one in rank(found, "chat")]
    rounds = [{way: again(arguments, *way) for way in candidates} for _ in range(arguments.rounds)]
    for name in TIMED:
        choice = rank(found, name)[0].placement
        chosen = choice.backend, choice.device, choice.precision
        medians = {way: statistics.median(one[way][name] for one in rounds) for way in candidates}
        slower = [100 * (one[chosen][name] / min(times[name] for times in one.values()) - 1) for one in rounds]
        verdict = "pass" if statistics.median(slower) <= GOAL else "MISS"
        figures = ", ".join(f"{' '.join(way)} {1e3 * seconds:.0f} ms" for way, seconds in medians.items())
        print(f"{model} {name}: {choice}, {statistics.median(slower):.1f} % behind the fastest, {verdict} ({figures})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder given to checkpoints.py")
    parser.add_argument("--models", nargs="+", default=["gpt2", "gpt2-medium", "qwen2.5-0.5b"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs=4, metavar=("MODEL", "BACKEND", "DEVICE", "PRECISION"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    os.environ.setdefault("CHATAPP_HOME", str(arguments.folder / "chatapp"))
    if arguments.only:
        model, *candidate = arguments.only
        print(json.dumps(once(str(arguments.folder / model), *candidate)))
        return
    for model in arguments.models:
        compare(arguments, model)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
