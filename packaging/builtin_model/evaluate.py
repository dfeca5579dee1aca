"""Measures completion on held-out lines, as `chatapp complete` and the editors' server offer it, and bits per byte.

With --model it writes evaluation.json: the model alone, with the file, and with the other files of its package; beside
Python, under "javascript", the same of npm's packages, if there are any. Without one it writes baselines.json, of
Python alone. Uncertainty is the middle 95 % of a bootstrap over the cases, of differences over pairs of them.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import javascript_lines
import numpy as np
import torch
from baselines import NGRAM_TOKENS, InFile, NextLine, NGram, ngram_bits
from bits import bits_per_byte, model_bits
from corpus import shingles
from fronts import by_command, by_infill, by_server
from lines import KINDS, NPM, SETS, Case, Projects, draw_cases, has_npm, is_code, is_import, read_documents
from model import read_model
from tokenizers import Tokenizer

from chatapp.completion.completer import Completer, Offer
from chatapp.completion.place import Place
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from model_store import Store

Json = dict[str, object]
Baseline = Callable[[str, str], tuple[str, float]]
"""Takes the text before and after the cursor; returns the rest of the line and a confidence."""

RANKER = Path(__file__).resolve().parents[2] / "chatapp" / "completion" / "ranker.json"
RESAMPLES = 2000
THRESHOLDS = (0.3, 0.5, 0.7)
SHARES = (10, 20, 30, 40, 50)
"""Of the cases, in per cent, those of the highest probability."""
SHOWN = 20
"""Unpicked examples in the report."""


@dataclass(frozen=True)
class Result:
    """What was offered first for a case."""

    case: Case
    text: str
    probability: float = 0.0
    source: str = ""
    seconds: float = 0.0
    """Of the processor."""

    @property
    def exact(self) -> bool:
        """Says whether nothing but outer spaces differs."""
        return self.text.strip() == self.case.wanted.strip()


def complete(completer: Completer, case: Case, place: Place) -> Result:
    """Asks for what would be shown."""
    started = process_time()
    offers = completer.offers(place)
    seconds = process_time() - started
    first = offers[0] if offers else None
    return Result(case, first.text, first.probability, first.source, seconds) if first else Result(case, "")


@dataclass(frozen=True)
class Language:
    """What is measured of a language."""

    name: str
    sets: Sequence[str]
    """Where cases come from in turn; the packages of the first were set aside as a whole."""
    is_code: Callable[[str], bool]
    is_import: Callable[[str], bool]


PYTHON = Language("python", SETS, is_code, is_import)
JAVASCRIPT = Language("javascript", (NPM,), javascript_lines.is_code, javascript_lines.is_import)
"""With TypeScript."""


def measure_product(work: Path, model: str, cases: Sequence[Case], folder: Path, language: Language = PYTHON) -> Json:
    """Completes every case alone, with the file and, where the package was set aside, in its project."""
    engine = open_engine(Store(work / "store"), model, PlacementOptions("onnx"))
    projects = Projects(read_documents(work / f"{language.sets[0]}.jsonl"), folder)
    alone, full = Completer(engine, threshold=0.0, matching=False), Completer(engine, threshold=0.0)
    unopened = Completer(None, threshold=0.0)
    ways: dict[str, Callable[[Case], Result | None]] = {
        "alone": lambda case: complete(alone, case, case.place),
        "file": lambda case: complete(full, case, case.place),
        "project": lambda case: complete(full, case, projects.place(case)) if case.project else None,
        "file_without_model": lambda case: complete(unopened, case, case.place),
    }
    results: dict[str, list[Result]] = {name: [] for name in ways}
    for done, case in enumerate(cases, 1):
        for name, way in ways.items():
            if result := way(case):
                results[name].append(result)
        if done % 100 == 0 or done == len(cases):
            print(done, {name: share([each.exact for each in given]) for name, given in results.items()}, flush=True)
    file_of_packages = [each for each in results["file"] if each.case.project]
    return {
        **{name: figures(given) for name, given in results.items()},
        "file_minus_alone": difference(results["file"], results["alone"]),
        "project_minus_file": difference(results["project"], file_of_packages),
    }


def measure_fronts(work: Path, model: str, cases: Sequence[Case], folder: Path, language: Language) -> Json:
    """Completes cases by library, command and server in their projects, by `/infill` with the file: are these alike?"""
    os.environ |= {"CHATAPP_HOME": str(work / "home"), "CHATAPP_BACKEND": "onnx"}
    projects = Projects(read_documents(work / f"{language.sets[0]}.jsonl"), folder)
    completer = Completer(open_engine(Store(work / "store"), model, PlacementOptions("onnx")), threshold=0.0)
    drawn = [case for case in cases if case.project]
    said = {
        "library": [complete(completer, case, projects.place(case)).text for case in drawn],
        "command": [by_command(projects, model, case) for case in drawn],
        "server": asyncio.run(by_server(projects, model, drawn, work / "home")),
        "file": [first(completer.offers(case.place, invoked=True)) for case in cases],
        "infill": by_infill(model, cases, work / "home"),
    }
    report: Json = {"cases": len(cases), "of projects": len(drawn)}
    for name, texts in said.items():
        asked, like = (cases, "file") if name in ("file", "infill") else (drawn, "library")
        results = [Result(case, text) for case, text in zip(asked, texts, strict=True)]
        pairs = zip(asked, texts, said[like], strict=True)
        others = [[f"{case.source}: {case.given}", text, other] for case, text, other in pairs if text != other]
        report[name] = {"exact": share([each.exact for each in results]), "unlike_the_library": others}
    return report


def first(offers: Sequence[Offer]) -> str:
    """The text of the best offer, if there is one."""
    return offers[0].text if offers else ""


def figures(results: Sequence[Result]) -> Json:
    """Sums results up, in per cent."""
    exact = [each.exact for each in results]
    packages = [each.exact for each in results if each.case.project]
    files = [each.exact for each in results if not each.case.project]
    return {
        "cases": len(results),
        "exact": share(exact),
        "packages": share(packages),
        "files": share(files) if files else None,
        "kinds": {kind: share(found) for kind in KINDS if (found := [r.exact for r in results if r.case.kind == kind])},
        "kind_cases": {kind: sum(each.case.kind == kind for each in results) for kind in KINDS},
        "surest": {str(part): surest(results, part) for part in SHARES},
        "at": {str(threshold): shown(results, threshold) for threshold in THRESHOLDS},
        "reliability": reliability(results),
        "seconds": {str(q): round(float(np.percentile([r.seconds for r in results], q)), 4) for q in (50, 95)},
        "examples": [example(each) for each in results[:SHOWN]],
    }


def share(values: Sequence[bool]) -> dict[str, float]:
    """A share in per cent, with the interval that 95 % of the resamples fall into."""
    chosen = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    return interval(np.array(values, float)[chosen].mean(1), float(np.mean(values)))


def difference(ours: Sequence[Result], theirs: Sequence[Result]) -> dict[str, float]:
    """How much more often ours are exact, of the same cases, in per cent of them."""
    pairs = np.array([[a.exact, b.exact] for a, b in zip(ours, theirs, strict=True)], float)
    gained = pairs[:, 0] - pairs[:, 1]
    chosen = np.random.default_rng(0).integers(len(gained), size=(RESAMPLES, len(gained)))
    return interval(gained[chosen].mean(1), float(gained.mean()))


def interval(resampled: np.ndarray, value: float) -> dict[str, float]:
    """A value and the middle 95 % of its resamples, in per cent."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    return {"value": round(100 * value, 1), "low": round(100 * float(low), 1), "high": round(100 * float(high), 1)}


def shown(results: Sequence[Result], threshold: float) -> Json:
    """How often something would be shown, and how often that is right."""
    given = [each for each in results if each.text and each.probability >= threshold]
    right = share([each.exact for each in given]) if given else None
    return {"shown": share([each.probability >= threshold and bool(each.text) for each in results]), "right": right}


def surest(results: Sequence[Result], part: int) -> dict[str, float]:
    """How often the offers of the highest probability are right, where so many per cent of the cases get one."""
    ordered = sorted(results, key=lambda each: -each.probability)
    return share([each.exact for each in ordered[: round(len(results) * part / 100)]])


def reliability(results: Sequence[Result]) -> list[dict[str, float]]:
    """How often what is said to be right with a probability is."""
    rows = []
    for low in np.arange(10) / 10:
        group = [each for each in results if each.text and low <= each.probability < low + 0.1]
        if group:
            said, true = np.mean([[each.probability, each.exact] for each in group], 0).tolist()
            rows.append({"said": round(said, 3), "true": round(true, 3), "count": len(group)})
    return rows


def example(result: Result) -> Json:
    """One case as it came."""
    return {
        "source": result.case.source,
        "given": result.case.given.strip(),
        "wanted": result.case.wanted,
        "completed": result.text,
        "exact": result.exact,
        "probability": round(result.probability, 3),
    }


def measure_baselines(work: Path, cases: Sequence[Case]) -> Json:
    """Completes every case without a trained model."""
    baselines: dict[str, Baseline] = {
        "in_file": InFile(),
        "ngram": NGram(work),
        "next_line": NextLine(work, [case.prefix for case in cases]),
    }
    return {
        name: figures([Result(case, baseline(case.prefix, case.suffix)[0].rstrip()) for case in cases])
        for name, baseline in baselines.items()
    }


def leave_out_seen(work: Path, cases: Sequence[Case]) -> list[Case]:
    """The cases that do not stand, with the lines around them, in any file that the model was trained on.

    Refuses packages that the ranker was fitted on.
    """
    languages = json.loads(RANKER.read_text(encoding="utf-8")).values()
    fitted = {package for stated in languages for package in stated["fitted on"]["packages"]}
    if known := {case.package for case in cases} & fitted:
        raise SystemExit(f"the ranker was fitted on {', '.join(sorted(known))}; fit it on other packages")
    runs = {run: number for number, case in enumerate(cases) for run in case.surroundings()}
    seen = set[int]()
    with open(work / "train.jsonl", encoding="utf-8") as documents:
        for document in documents:
            seen |= {runs[run] for run in shingles(json.loads(document)["text"]) & runs.keys()}
    return [case for number, case in enumerate(cases) if number not in seen]


def measure_language(given: argparse.Namespace, language: Language, count: int) -> Json:
    """Measures the model on a language's lines, those that import apart, and its bits per byte."""
    cases = draw(given, language, count)
    report: Json = {"cases": len(cases), "left_out": count - len(cases), "seed": given.seed}
    with TemporaryDirectory() as folder:
        report |= measure_product(given.work, given.model, cases, Path(folder), language)
    with TemporaryDirectory() as folder:
        imports = draw_cases(given.work, given.imports, given.seed, language.is_import, language.sets)
        report["imports"] = measure_product(given.work, given.model, imports, Path(folder), language)
    if Path(given.model).is_dir():
        model = read_model(Path(given.model))
        report["bits_per_byte"] = bits_per_byte(
            given.work, lambda drawn: model_bits(model, drawn), model.config.context, language.sets
        )
    return report


def draw(given: argparse.Namespace, language: Language, count: int) -> list[Case]:
    """Draws a language's cases, without those the model has seen where that is to be checked."""
    cases = draw_cases(given.work, count, given.seed, language.is_code, language.sets)
    return leave_out_seen(given.work, cases) if given.check else cases


def measure_without(given: argparse.Namespace) -> Json:
    """Measures the baselines on Python's lines."""
    cases = draw(given, PYTHON, given.cases)
    report: Json = {"cases": len(cases), "left_out": given.cases - len(cases), "seed": given.seed}
    tokens = np.load(given.work / "train.npy", mmap_mode="r")[:NGRAM_TOKENS]
    size = Tokenizer.from_file(str(given.work / "tokenizer.json")).get_vocab_size()
    bits = bits_per_byte(given.work, lambda drawn: ngram_bits(tokens, drawn, vocabulary=size), 1024)
    return report | {"bits_per_byte": bits, "ngram_tokens": len(tokens)} | measure_baselines(given.work, cases)


def measure_model(given: argparse.Namespace) -> Json:
    """Measures Python, and JavaScript if packages of npm were set aside; or one of them."""
    report: Json = {}
    if given.only != JAVASCRIPT.name:
        report = measure_language(given, PYTHON, given.cases)
    if given.only != PYTHON.name and has_npm(given.work):
        report[JAVASCRIPT.name] = measure_language(given, JAVASCRIPT, given.javascript_cases)
    return report


def keep_other(report: Json, only: str, file: Path) -> Json:
    """The report of one language with what a report that is there already has of the other."""
    known: Json = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept = [name for name in known if (name == JAVASCRIPT.name) == (only == PYTHON.name)]
    return {name: known[name] for name in kept} | report


def main() -> None:
    """Parses the command line, measures and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", help="an exported model, or builtin; without it the baselines are measured")
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--javascript-cases", type=int, default=600, help="of npm's packages, if any were set aside")
    parser.add_argument("--imports", type=int, default=200, help="lines that import, which are drawn apart")
    parser.add_argument("--only", choices=(PYTHON.name, JAVASCRIPT.name), help="leave the other in the report as it is")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="leave out cases that the model has seen in training")
    parser.add_argument("--fronts", action="store_true", help="compare library, command, server, /infill")
    parser.add_argument("--out", type=Path, help="report file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    work: Path = given.work
    if given.fronts:
        language, count = (
            (JAVASCRIPT, given.javascript_cases) if given.only == JAVASCRIPT.name else (PYTHON, given.cases)
        )
        with TemporaryDirectory() as folder:
            found = measure_fronts(work, given.model, draw(given, language, count), Path(folder), language)
        print(json.dumps(found))
        return
    out = given.out or work / ("evaluation.json" if given.model else "baselines.json")
    report = measure_model(given) if given.model else measure_without(given)
    if given.only:
        report = keep_other(report, given.only, out)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
