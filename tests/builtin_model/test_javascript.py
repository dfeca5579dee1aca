"""JavaScript and TypeScript beside Python in the recipe: lines drawn, measured, and what card and notices say."""

import argparse
import importlib
import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.checkpoints import ROOT

RECIPE = ROOT / "packaging" / "builtin_model"
CODE = {
    "export function first(a: number) {": "definition",
    "export default async function load(url) {": "definition",
    "type Pair<T> = [T, T];": "definition",
    "const add = (a: number, b: number): number => {": "definition",
    "private async readAll(path: string): Promise<void> {": "definition",
    "return value ?? other.value;": "return",
    "const total = items.reduce(add, 0);": "assignment",
    "this.#count += other.count;": "assignment",
    "let first: Map<string, number> = new Map();": "assignment",
    ".filter((item) => item?.name)": "call",
    "it('counts', async () => {": "call",
    "} else if (first === second) {": "other",
    "for (const item of items) {": "other",
    "readonly name?: string;": "other",
    "<Button key={item.id} {...rest}>": "other",
}
"""Lines worth completing, and their kinds."""
NOT_CODE = (
    *("import { a } from './a';", "} from '../other.js';", "export * from './all';", "const fs = require('node:fs');"),
    *("// const a = b.c;", "* @param a - What: this", "/** Says: this. */", "This is prose: it says nothing."),
    *("});", "'use strict: yes';", "onlyAName,"),
)


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:  # Any: modules of scripts, found by their folder
    monkeypatch.syspath_prepend(str(RECIPE))
    return importlib.import_module


@pytest.fixture
def with_torch(scripts: Any) -> Any:
    pytest.importorskip("torch")
    return scripts


def source(seed: int, line: str) -> str:
    chance = random.Random(seed)
    return "".join(line.format(number=number, name=chance.randrange(10**9)) for number in range(60))


def write_set(work: Path, name: str, package: str, path: str, line: str) -> None:
    files = [{"package": package, "path": path.format(n), "text": source(n, line)} for n in range(3)]
    (work / f"{name}.jsonl").write_text("".join(json.dumps(file) + "\n" for file in files), "utf-8")


def write_python(work: Path) -> None:
    for name in ("heldout_package", "heldout_file", "train"):
        write_set(work, name, name, "{}.py", f"values[{{number}}] = {name}(first, {{name}})\nfrom {name} import a\n")


def write_npm(work: Path) -> None:
    line = "values[{number}] = compute(first, {name});\nimport one from 'two';\n"
    write_set(work, "heldout_npm", "npm:@some/thing", "src/{}.ts", line)


def test_statements_are_told_from_imports_comments_and_prose_and_by_their_kind(scripts: Any) -> None:
    lines, javascript = scripts("lines"), scripts("javascript_lines")
    assert [line for line in CODE if not javascript.is_code(line)] == []
    assert [line for line in NOT_CODE if javascript.is_code(line)] == []
    assert {line: lines.Case("npm:p", "p.ts", "a\n" + line[:2], "\n", line[2:]).kind for line in CODE} == CODE
    assert list(javascript.KINDS) == list(lines.KINDS)
    assert [javascript.is_import(line) for line in NOT_CODE[:5]] == [True] * 4 + [False]


def test_cases_of_npm_have_a_path_and_a_project_and_those_of_python_are_as_before(tmp_path: Path, scripts: Any) -> None:
    lines, javascript = scripts("lines"), scripts("javascript_lines")
    write_python(tmp_path)
    before = lines.draw_cases(tmp_path, 20, seed=3)
    write_npm(tmp_path)
    cases = lines.draw_cases(tmp_path, 20, 3, javascript.is_code, (lines.NPM,))
    assert all(case.project and case.place.path == Path(case.path) for case in cases)
    assert lines.Projects(lines.read_documents(tmp_path / "heldout_npm.jsonl"), tmp_path / "p").place(cases[0]).path
    assert lines.draw_cases(tmp_path, 20, seed=3) == before
    assert [case.project for case in before] == [True, False] * 10 and not any(case.place.path for case in before)
    assert [(case.path, len(case.given)) for case in before[:3]] == PINNED


PINNED = [("2.py", 25), ("2.py", 6), ("2.py", 27)]
"""What was drawn before there was any JavaScript."""


def measured(evaluate: Any, work: Path, monkeypatch: pytest.MonkeyPatch, only: str | None) -> tuple[Any, set[Any]]:
    """The report of a model that knows nothing, and where it was asked: whose file, of which ending, in a project?"""
    places = set[Any]()

    def complete(_: Any, case: Any, place: Any) -> Any:
        places.add((case.package, place.path and place.path.suffix, place.folder is not None))
        return evaluate.Result(case, "")

    monkeypatch.setattr(evaluate, "open_engine", lambda *_: None)
    monkeypatch.setattr(evaluate, "complete", complete)
    options = {"cases": 12, "javascript_cases": 6, "imports": 12, "seed": 7, "check": False, "only": only}
    return evaluate.measure_model(argparse.Namespace(work=work, model="builtin", **options)), places


def test_javascript_is_measured_beside_python_with_the_path_that_tells_its_grammar(
    tmp_path: Path, with_torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = with_torch("evaluate")
    write_python(tmp_path)
    python = {("heldout_package", None, False), ("heldout_file", None, False), ("heldout_package", ".py", True)}
    report, places = measured(evaluate, tmp_path, monkeypatch, None)
    assert report["cases"] == 12 and "javascript" not in report and places == python
    (tmp_path / "heldout_npm.jsonl").touch()  # of a corpus of Python alone
    assert measured(evaluate, tmp_path, monkeypatch, None) == (report, python)
    write_npm(tmp_path)
    npm = {("npm:@some/thing", ".ts", False), ("npm:@some/thing", ".ts", True)}
    both, places = measured(evaluate, tmp_path, monkeypatch, None)
    assert places == python | npm
    assert both["javascript"]["cases"] == 6 and {name: both[name] for name in report} == report
    assert both["javascript"].keys() == report.keys()
    _, places = measured(evaluate, tmp_path, monkeypatch, "javascript")
    assert places == npm


def test_a_report_of_one_language_keeps_the_other(tmp_path: Path, with_torch: Any) -> None:
    evaluate, file = with_torch("evaluate"), tmp_path / "evaluation.json"
    new: dict[str, object] = {"javascript": {"cases": 3}}
    assert evaluate.keep_other(new, "javascript", file) == new
    file.write_text(json.dumps({"cases": 4, "javascript": {"cases": 2}}), "utf-8")
    assert evaluate.keep_other(new, "javascript", file) == {"cases": 4, "javascript": {"cases": 3}}
    assert evaluate.keep_other({"cases": 5}, "python", file) == {"cases": 5, "javascript": {"cases": 2}}


def test_checks_in_training_have_npm_under_names_of_its_own(tmp_path: Path, with_torch: Any) -> None:
    heldout, tokenizers = with_torch("heldout"), pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(ROOT / "model_store" / "builtin" / "tokenizer.json"))
    write_python(tmp_path)
    before = heldout.checks(tmp_path, tokenizer)
    write_npm(tmp_path)
    with open(tmp_path / "heldout_npm.jsonl", "a", encoding="utf-8") as npm:  # one without any line to be cut
        npm.write(json.dumps({"package": "npm:a", "path": "a.js", "text": " * Nothing but comments\n" * 60}) + "\n")
    found = heldout.checks(tmp_path, tokenizer)
    assert list(before) == ["plain", "infilling"]
    assert list(found) == ["plain", "infilling", "npm_plain", "npm_infilling"]
    assert all((found[name].ids == before[name].ids).all() for name in before)
    assert "compute" in tokenizer.decode(found["npm_infilling"].ids[0].tolist())


def test_what_is_known_by_heart_is_drawn_from_each_language(tmp_path: Path, with_torch: Any) -> None:
    memorisation = with_torch("memorisation")
    np.save(tmp_path / "train.npy", np.repeat(np.array([6, 7, 8], np.uint16), 300))
    files = [{"package": name, "path": name, "start": 300 * n} for n, name in enumerate(("a", "npm:b", "c"))]
    (tmp_path / "train_files.json").write_text(json.dumps(files), "utf-8")
    drawn = [memorisation.trained_pieces(tmp_path, 5, random.Random(1), of_npm=of_npm) for of_npm in (False, True)]
    assert [sorted({piece[-1] for piece in pieces}) for pieces in drawn] == [[6, 8], [7]]


def pack(file: Path, files: dict[str, str]) -> None:
    with tarfile.open(file, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def test_notices_of_npm_come_from_the_root_of_its_tarballs_or_from_what_it_states(tmp_path: Path, scripts: Any) -> None:
    notices = scripts("notices")
    (tmp_path / "npm").mkdir()
    stated = json.dumps({"name": "b", "author": {"name": "Ada", "url": "https://a.b"}, "license": "MIT"})
    licensed = {"package/LICENSE.md": "Terms of A", "package/NOTICE": "Made by A", "package/package.json": stated}
    others = {"package/src/license.js": "code", "package/vendor/LICENSE": "of others", "package/licenses.json": "{}"}
    pack(tmp_path / "npm" / "@some__a-1.0.tgz", licensed | others)
    pack(tmp_path / "npm" / "b-2.0.tgz", {"b/package.json": stated})
    packages = [("npm:@some/a", "1.0", False), ("npm:b", "v2.0", False), ("npm:apart", "1", True)]
    sources = [{"package": name, "version": v, "bytes": 1, "heldout": apart} for name, v, apart in packages]
    (tmp_path / "sources.json").write_text(json.dumps({"sources": sources}), "utf-8")
    found = {text: owners for text, owners in notices.collect(tmp_path).values() if owners != ["python-stdlib"]}
    assert list(found)[:2] == ["Terms of A", "Made by A"] and found["Terms of A"] == ["npm:@some/a 1.0"]
    said = next(text for text, owners in found.items() if owners == ["npm:b v2.0"])
    assert "author: Ada https://a.b" in said and "license: MIT" in said and len(found) == 3


def way(value: float) -> dict[str, Any]:
    found = {"value": value, "low": value, "high": value}
    kinds = {"kinds": {"call": found}, "kind_cases": {"call": 1}, "surest": {"10": found}, "at": {}, "cases": 9}
    return {"exact": found, "packages": found, "files": None, **kinds}


def test_the_card_says_what_the_corpus_has_of_javascript_and_how_good_the_model_is_at_it(
    tmp_path: Path, with_torch: Any
) -> None:
    card = with_torch("card")
    report = {name: way(20.0) for name in ("alone", "file", "project", "file_without_model", "imports")}
    report["imports"] |= report
    evaluation = {**report, "cases": 9, "javascript": report | {"cases": 9, "bits_per_byte": {"heldout_npm": 0.5}}}
    np.save(tmp_path / "train.npy", np.zeros(1000, np.uint16))
    (tmp_path / "train_files.json").write_text(json.dumps([{"package": "a", "path": "a.py", "start": 0}]), "utf-8")
    told = {}
    for npm in (False, True):
        names = ["a", "npm:@b/c"][: 1 + npm]
        facts = {"version": "1", "licence": "MIT", "bytes": 2 * 10**6, "heldout": False}
        (tmp_path / "sources.json").write_text(
            json.dumps({"sources": [{"package": n} | facts for n in names]}), "utf-8"
        )
        run = {"tokens": 1000, "begun_from": ""}
        told[npm] = card.introduction(tmp_path, run, evaluation, 10**6, 10**6) + card.sources(tmp_path, "")
    assert "from Python code alone" in told[False] and "JavaScript" not in told[False] and "npm" not in told[False]
    assert (
        "Python and, 50 % of the text, JavaScript and TypeScript" in told[True]
        and "**MIT** (1 package, 2.0 MB): @b/c 1." in told[True]
    )
    assert "of JavaScript and TypeScript 20, 20 and 20 %" in told[True]
    said = card.javascript(evaluation["javascript"])
    assert "| **in a project** | 20.0 (20.0 to 20.0) |" in said and "| call | 1 | 20.0" in said and "0.500" in said


def test_a_package_of_npm_gives_fewer_tokens(tmp_path: Path, scripts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = scripts("samples")
    monkeypatch.setattr(samples, "NPM_TOKENS", 250)
    packages = ["a", "npm:b", "a", "npm:b", "a", "npm:b", "npm:c"]
    files = [{"package": name, "path": "p", "start": 100 * n} for n, name in enumerate(packages)]
    (tmp_path / "train_files.json").write_text(json.dumps(files), "utf-8")
    taken = [packages[start // 100] for start, _ in samples.chosen_files(tmp_path, 1000, 700)]
    assert taken == ["a", "npm:b", "a", "npm:b", "a", "npm:c"]
    assert len(samples.chosen_files(tmp_path, 150, 700)) == 3
