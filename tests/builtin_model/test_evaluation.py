"""How completion is fitted and measured: the ranker's fit, the cases, and what keeps them from what was trained on."""

import importlib
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.checkpoints import ROOT

RECIPE = ROOT / "packaging" / "builtin_model"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:  # Any: modules of scripts, found by their folder
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(RECIPE))
    return importlib.import_module


def source(seed: int) -> str:
    chance = random.Random(seed)
    return "".join(f"values[{number}] = compute(first, unique_{chance.randrange(10**9)})\n" for number in range(60))


def write_sets(work: Path) -> None:
    for seed, (name, package) in enumerate({"heldout_package": "apart", "heldout_file": "b", "train": "b"}.items()):
        files = [{"package": package, "path": f"{n}.py", "text": source(10 * seed + n)} for n in range(3)]
        (work / f"{name}.jsonl").write_text("".join(json.dumps(file) + "\n" for file in files), "utf-8")


def test_the_fit_finds_the_weights_that_made_the_data(scripts: Any) -> None:
    ranker, random_numbers = scripts("ranker"), np.random.default_rng(1)
    weights, none, examples = np.array([2.0, -1.0]), 0.5, []
    for number in range(1500):
        features = random_numbers.normal(size=(4, 2))
        scores = np.append(features @ weights, none)
        drawn = int(random_numbers.choice(5, p=np.exp(scores) / np.exp(scores).sum()))
        examples.append(ranker.Example(f"package{number % 10}", features, drawn if drawn < 4 else -1))
    found = ranker.fit(examples)
    assert np.abs(found.weights - weights).max() < 0.2 and abs(found.none - none) < 0.2
    assert ranker.measure(examples)["calibration_error"] < 0.05


def test_a_case_is_a_file_cut_in_one_of_its_lines(tmp_path: Path, scripts: Any) -> None:
    lines = scripts("lines")
    write_sets(tmp_path)
    texts = {file["text"] for name in lines.SETS for file in lines.read_documents(tmp_path / f"{name}.jsonl")}
    cases = lines.draw_cases(tmp_path, 20, seed=3)
    assert {case.prefix + case.wanted + case.suffix for case in cases} <= texts
    assert [case.project for case in cases] == [True, False] * 10
    assert all(len(case.wanted) > 2 and case.given.strip() for case in cases)
    assert lines.draw_cases(tmp_path, 20, seed=3) == cases


def test_in_a_project_no_file_has_what_is_wanted(tmp_path: Path, scripts: Any) -> None:
    lines = scripts("lines")
    write_sets(tmp_path)
    documents = lines.read_documents(tmp_path / "heldout_package.jsonl")
    projects = lines.Projects(documents, tmp_path / "projects")
    asked = 0
    for case in lines.draw_cases(tmp_path, 8, seed=5)[::2]:
        place = projects.place(case)
        assert place.path and place.path.read_text("utf-8") == case.prefix + case.suffix
        assert place.folder and len(place.folder.paths) == 3
        others = re.findall(r"unique_\d+", case.suffix)
        assert place.folder.knows(others[0])
        for name in re.findall(r"\bunique_\d+", case.wanted):
            assert not place.folder.knows(name)
            asked += 1
    assert asked


def test_cases_whose_lines_were_trained_on_are_left_out(tmp_path: Path, scripts: Any) -> None:
    lines, evaluate = scripts("lines"), scripts("evaluate")
    write_sets(tmp_path)
    cases = lines.draw_cases(tmp_path, 10, seed=3)
    assert evaluate.leave_out_seen(tmp_path, cases) == cases
    seen = cases[4]
    with open(tmp_path / "train.jsonl", "a", encoding="utf-8") as train:
        text = f"# something else\n{seen.prefix}{seen.wanted}{seen.suffix}"
        train.write(json.dumps({"package": "copy", "path": "copy.py", "text": text}) + "\n")
    left = evaluate.leave_out_seen(tmp_path, cases)
    assert seen not in left and left
    fitted = json.loads(evaluate.RANKER.read_text("utf-8"))["javascript"]["fitted on"]["packages"]
    with pytest.raises(SystemExit, match=fitted[0]):
        evaluate.leave_out_seen(tmp_path, [lines.Case(fitted[0], "x.py", "a\n", "\nb", "c")])


def test_a_share_tells_its_uncertainty_and_a_difference_is_paired(scripts: Any) -> None:
    evaluate, lines = scripts("evaluate"), scripts("lines")
    found = evaluate.share([True] * 30 + [False] * 70)
    assert found["value"] == 30.0 and 20 < found["low"] < 25 and 35 < found["high"] < 40
    case = lines.Case("p", "p.py", "a\n", "\n", "right")
    ours = [evaluate.Result(case, "right")] * 10 + [evaluate.Result(case, "wrong")] * 90
    theirs = [evaluate.Result(case, "right")] * 5 + [evaluate.Result(case, "wrong")] * 95
    gained = evaluate.difference(ours, theirs)
    assert gained["value"] == 5.0 and gained["low"] > 0  # unpaired, 5 of 100 could be chance


def test_lines_are_told_by_their_kind_and_offers_by_how_sure_they_are(scripts: Any) -> None:
    evaluate, lines = scripts("evaluate"), scripts("lines")
    kinds = {
        "def f(x=1):": "definition", "async def f():": "definition", "return f(x)": "return",
        "self.x = f(1)": "assignment",
        "a[b] += 1": "assignment", "x: int = 3": "assignment", "f(a=1)": "call", "raise Wrong(x)": "call",
        "if x == 3:": "other",
    }  # fmt: skip
    assert {line: lines.Case("p", "p.py", "a\n" + line[:2], "\n", line[2:]).kind for line in kinds} == kinds
    assert lines.is_import("from os import path") and not lines.is_import("from_os = import_it()")
    case = lines.Case("p", "p.py", "a\n", "\n", "right", project=True)
    results = [evaluate.Result(case, "right" if sure > 7 else "wrong", sure / 10) for sure in range(10)]
    assert [evaluate.surest(results, part)["value"] for part in (10, 20, 40)] == [100.0, 100.0, 50.0]
    assert evaluate.figures(results)["kinds"]["other"]["value"] == 20.0
