"""Averages what a run made with the model that it began with, weight by weight.

A model that went on with other text forgets some of what it knew. On the way back between the two it has most of both
(arXiv 2109.01903): only what lies between weights that one training led from one to the other can be averaged.
"""

# torch has no types as this project checks it.
# mypy: warn-return-any=False

import argparse
from pathlib import Path

import torch
from model import read_model
from train import load, save


def main() -> None:
    """Parses the command line and writes a run of the averaged weights, to be exported as others are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--before", type=Path, required=True, help="the model that it began with")
    parser.add_argument("--share", type=float, required=True, help="of the run's weights, between 0 and 1")
    parser.add_argument("--into", type=Path, required=True, help="folder of the averaged run")
    given = parser.parse_args()
    state, before = load(given.run / "state.pt"), read_model(given.before).state_dict()
    if before.keys() != state["weights"].keys() or any(before[n].shape != w.shape for n, w in state["weights"].items()):
        raise SystemExit(f"{given.before} has another shape than the run")
    if not 0 < given.share < 1:
        raise SystemExit("--share lies between 0 and 1")
    weights = {name: torch.lerp(before[name], weight.float(), given.share) for name, weight in state["weights"].items()}
    given.into.mkdir(parents=True, exist_ok=True)
    save(given.into / "state.pt", {**state, "weights": weights, "run": state["run"] | {"share": given.share}})


if __name__ == "__main__":
    main()
