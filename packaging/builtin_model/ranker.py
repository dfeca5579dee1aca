"""Fits the weights with which completion ranks candidates, on lines of packages that no model here was trained on.

    pip download --no-deps --only-binary :all: -d R/wheels arrow falcon luigi ...
    npm pack --pack-destination R/npm culori publint mixpanel ...
    python packaging/builtin_model/ranker.py --work R

A softmax over the candidates of a place and "none of them", L2 regularised; each line counts with the project's other
files and without. It is measured on packages that the weights were not fitted on; then they are fitted on all. Python
has weights of its own, and so has JavaScript with TypeScript.
"""

# torch has no types as this project checks it.
# mypy: disallow-untyped-calls=False

import argparse
import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from corpus import Document
from lines import Case, Projects, draw_places, read_tarballs, read_wheels

from chatapp.completion.candidates import Candidate, find_candidates, judge
from chatapp.completion.gate import Gate
from chatapp.completion.ranker import FEATURES
from chatapp.generation import Engine
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store

OUT = Path(__file__).resolve().parents[2] / "chatapp" / "completion" / "ranker.json"
FOLDS = 5
L2 = 0.003
Json = dict[str, Any]
Found = tuple[list[Candidate], list[Candidate]]
"""The candidates of a place in its project, and without it."""
KINDS: dict[str, Callable[[Candidate], Candidate | None]] = {
    "model": lambda it: it,
    "files": lambda it: replace(it, logprob=None) if it.file or it.other else None,
}
"""What is left of a candidate where a model was asked, and where none was."""
UNUSED = {"files": {"model"}}
READERS: dict[str, tuple[str, Callable[[Path], Iterator[Document]]]] = {
    "python": ("wheels", read_wheels),
    "javascript": ("npm", read_tarballs),
}
"""By language, the folder of the packages and what reads them."""


@dataclass(frozen=True)
class Example:
    """The candidates of a place as numbers, and which of them is right."""

    package: str
    features: np.ndarray  # (candidates, features)
    right: int
    """-1: none."""


@dataclass(frozen=True)
class Fit:
    """Weights by feature, and that of none."""

    weights: np.ndarray  # (features,)
    none: float

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """The probability of each candidate: (candidates,)."""
        scores = np.concatenate([features @ self.weights, [self.none]])
        shares = np.exp(scores - scores.max())
        return np.asarray(shares / shares.sum())[:-1]


def fit(examples: Sequence[Example]) -> Fit:
    """Fits by L-BFGS; features are scaled by their deviation, so that each is regularised alike."""
    scale = np.concatenate([example.features for example in examples]).std(0) + 1e-3
    most = max(len(example.features) for example in examples)
    features = torch.zeros(len(examples), most, len(scale))
    absent = torch.ones(len(examples), most, dtype=torch.bool)
    for place, example in enumerate(examples):
        count = len(example.features)
        features[place, :count] = torch.tensor(example.features / scale)
        absent[place, :count] = False
    right = torch.tensor([example.right if example.right >= 0 else most for example in examples])
    weights, none = torch.zeros(len(scale), requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights, none], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        scores = (features @ weights).masked_fill(absent, -1e9)
        scores = torch.cat([scores, none.expand(len(examples), 1)], 1)
        value = torch.nn.functional.cross_entropy(scores, right) + L2 * (weights**2).sum()
        value.backward()
        return value

    optimiser.step(loss)
    return Fit(weights.detach().numpy() / scale, float(none.detach()))


def examples_of(cases: Sequence[Case], found: Sequence[Found], kind: str, names: Sequence[str]) -> list[Example]:
    """Each case with the other files of its package, and without."""
    examples = []
    for case, ways in zip(cases, found, strict=True):
        for candidates in ways:
            left = [kept for each in candidates if (kept := KINDS[kind](each))]
            right = next((place for place, each in enumerate(left) if each.text == case.wanted), -1)
            numbers = [[FEATURES[name](each) for name in names] for each in left]
            examples.append(Example(case.package, np.array(numbers, float).reshape(-1, len(names)), right))
    return examples


def measure(examples: Sequence[Example]) -> Json:
    """Fits on all packages but a fifth, and says how the probabilities of the others' best candidates come true."""
    chances: list[tuple[float, bool]] = []
    for fold in range(FOLDS):
        others = fit([example for example in examples if fold_of(example) != fold])
        for example in examples:
            if fold_of(example) == fold and len(example.features):
                shares = others.probabilities(example.features)
                best = int(shares.argmax())
                chances.append((float(shares[best]), best == example.right))
    said, true = np.array([p for p, _ in chances]), np.array([right for _, right in chances])
    bins = [(said >= low) & (said < low + 0.1) for low in np.arange(10) / 10]
    table = [
        {"said": round(float(said[i].mean()), 3), "true": round(float(true[i].mean()), 3), "count": int(i.sum())}
        for i in bins
        if i.any()
    ]
    error = sum(row["count"] * abs(row["said"] - row["true"]) for row in table) / len(said)
    return {"reliability": table, "calibration_error": round(error, 4)}


def fold_of(example: Example) -> int:
    """The part of the data that a package falls into."""
    return hashlib.md5(example.package.encode()).digest()[0] % FOLDS


def ask(cases: Sequence[Case], projects: Projects, engine: Engine) -> list[Found]:
    """Asks for the candidates of every case, in its project and without it."""
    found, gate = list[Found](), Gate()
    for done, case in enumerate(cases, 1):
        inside = projects.place(case)
        outside, known = replace(inside, folder=None), find_candidates(engine, inside)
        alone = [replace(each, other=None) for each in known if each.logprob is not None or each.file]
        judged = ([judge(gate, inside, each) for each in known], [judge(gate, outside, each) for each in alone])
        found.append(judged)
        if done % 100 == 0:
            print(f"{done} of {len(cases)} lines", flush=True)
    return found


def fit_language(given: argparse.Namespace, language: str) -> Json:
    """Fits the weights of a language: where a model was asked, and where files alone were looked at."""
    folder, read = READERS[language]
    documents, kept = list(read(given.work / folder)), given.work / f"found_{language}.pkl"
    cases = draw_places(documents, given.lines, given.seed)
    if not kept.exists():
        engine = open_engine(Store(given.work / "store"), given.model, PlacementOptions("onnx"))
        with TemporaryDirectory() as projects:
            kept.write_bytes(pickle.dumps(ask(cases, Projects(documents, Path(projects)), engine)))
    found: list[Found] = pickle.loads(kept.read_bytes())
    packages = sorted({case.package for case in cases})
    stated: Json = {"fitted on": {"model": given.model, "lines": given.lines, "seed": given.seed, "packages": packages}}
    for kind in KINDS:
        names = [name for name in FEATURES if name not in UNUSED.get(kind, set())]
        examples = examples_of(cases, found, kind, names)
        fitted, measured = fit(examples), measure(examples)
        print(language, kind, json.dumps(measured))
        weights = {name: round(float(value), 4) for name, value in zip(names, fitted.weights, strict=True)}
        stated[kind] = {"features": weights, "none": round(fitted.none, 4), **measured}
    return stated


def main() -> None:
    """Parses the command line, fits each language and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--work", type=Path, required=True, help="with wheels and npm; candidates are kept there, and used again"
    )
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--lines", type=int, default=2000, help="of each language")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    stated = {language: fit_language(given, language) for language in READERS}
    given.out.write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
