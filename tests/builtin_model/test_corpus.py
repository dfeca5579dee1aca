"""The corpus of the built-in model: what of a folder of wheels is trained on, what is kept from it."""

import hashlib
import importlib.util
import json
import random
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from model_store.store import BUILTIN_FOLDER
from support.checkpoints import ROOT

RECIPE = ROOT / "packaging" / "builtin_model"
PACKAGE_LISTS = ("packages.txt", "more_packages.txt"), ("npm_packages.txt",)


@pytest.fixture(scope="module")
def corpus() -> Any:
    return script("corpus")


def script(name: str) -> Any:
    """A script, loaded under a name that hides nothing."""
    spec = importlib.util.spec_from_file_location(f"builtin_model_{name}", RECIPE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RECIPE)
        spec.loader.exec_module(module)
    return module


def source_text(seed: str, lines: int = 40) -> str:
    chance = random.Random(seed)
    words = [f"{a}_{b}" for a in ("read", "write", "merge", "split") for b in ("lines", "words", "pages", "names")]
    return "".join(
        f"{chance.choice(words)} = {chance.choice(words)}(text, {chance.random():.3f})\n" for _ in range(lines)
    )


def path_for(package: str, aside: bool) -> str:
    """A path in a package that is put aside for the held-out files, or is not."""
    paths = (f"{package}/module{number}.py" for number in range(1000))
    return next(path for path in paths if (hashlib.md5(path.encode()).digest()[0] < 5) is aside)


def make_wheel(folder: Path, name: str, licence: str, files: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl", "w") as wheel:
        metadata = f"Name: {name}\nVersion: 1.0\nAuthor: Zoë\n{licence}\n"
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", metadata)
        for path, text in files.items():
            wheel.writestr(path, text)


def read_wheels(corpus: Any, made: Any, wheels: Path) -> None:
    """Reads all but the standard library, whose 25 MB take a while."""
    for source, files in corpus.packages(wheels):
        if source.package != "python-stdlib":
            made.read_source(source, files)
    made.put_aside()


def test_a_package_is_read_under_a_permissive_licence_only(corpus: Any, tmp_path: Path) -> None:
    make_wheel(
        tmp_path, "new-bsd", "Classifier: License :: OSI Approved :: BSD License", {"new/a.py": source_text("a")}
    )
    make_wheel(tmp_path, "plain", "License: MIT", {"plain/a.py": source_text("b"), "plain/data.json": "{}"})
    make_wheel(tmp_path, "copyleft", "License-Expression: GPL-3.0-only", {"copyleft/a.py": source_text("c")})
    make_wheel(tmp_path, "silent", "Summary: no licence", {"silent/a.py": source_text("d")})
    found = {source.package: (source.licence, list(files)) for source, files in corpus.packages(tmp_path)}
    assert found.pop("python-stdlib")[0] == "PSF-2.0"
    assert found == {"new-bsd": ("BSD", ["new/a.py"]), "plain": ("MIT", ["plain/a.py"])}


def test_a_text_once_in_training_is_not_held_out_and_not_trained_twice(corpus: Any, tmp_path: Path) -> None:
    trained, aside = path_for("attrs", aside=False), path_for("attrs", aside=True)
    shared, own = source_text("shared"), source_text("own")
    files = {trained: shared, aside: own, "attrs/zz_again.py": shared, "attrs/vendor/six.py": source_text("six")}
    make_wheel(tmp_path, "attrs", "License: MIT", files)
    make_wheel(
        tmp_path, "jinja2", "License: BSD", {"jinja2/copy.py": shared + "x = 1\n", "jinja2/own.py": source_text("j")}
    )
    made = corpus.Corpus()
    read_wheels(corpus, made, tmp_path)
    assert [(d["path"], d["text"]) for d in made.train] == [(trained, shared)]
    assert [d["path"] for d in made.heldout["heldout_package"]] == ["jinja2/own.py"]
    assert [(d["path"], d["text"]) for d in made.heldout["heldout_file"]] == [(aside, own)]
    assert made.dropped == {"duplicate": 1, "path": 1, "near duplicate": 1, "put aside": 1}


def test_held_out_files_come_from_the_first_packages_alone(corpus: Any, tmp_path: Path) -> None:
    files = {path_for("later", aside=True): source_text("x"), path_for("later", aside=False): source_text("y")}
    make_wheel(tmp_path, "later", "License: MIT", files)
    made = corpus.Corpus()
    read_wheels(corpus, made, tmp_path)
    assert len(made.train) == 1 and not made.heldout["heldout_file"]


@pytest.mark.parametrize("lists", PACKAGE_LISTS)
def test_the_lists_of_packages_name_each_package_once_with_its_version(lists: tuple[str, ...]) -> None:
    lines = [line for name in lists for line in (RECIPE / name).read_text().splitlines()]
    names = [line.split("==")[0] for line in lines if line and not line.startswith("#")]
    assert names and all("==" in line for line in lines if line and not line.startswith("#"))
    assert len(set(names)) == len(names)


def test_the_notices_of_all_that_was_trained_on_are_collected_each_text_once(
    corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "corpus", corpus)
    for name in ("one", "two"):
        make_wheel(tmp_path / "wheels", name, "License: MIT", {f"{name}-1.0.dist-info/licenses/LICENSE": "All  may.\n"})
    make_wheel(tmp_path / "wheels", "inside", "License: MIT", {"inside/COPYING": "Some may.", "inside/copying.py": ""})
    make_wheel(tmp_path / "wheels", "silent", "License: MIT\nMaintainer: Ann", {"third_party/LICENSE": "Others may."})
    make_wheel(tmp_path / "wheels", "unread", "License: MIT", {"unread/LICENSE": "None may."})
    used = [
        {"package": name, "version": "1.0", "bytes": 9, "heldout": False} for name in ("one", "two", "inside", "silent")
    ]
    unused = {"package": "unread", "version": "1.0", "bytes": 9, "heldout": True}
    (tmp_path / "sources.json").write_text(json.dumps({"sources": [*used, unused]}))
    texts = {" ".join(text.split()): owners for text, owners in script("notices").collect(tmp_path).values()}
    assert texts["All may."] == ["one 1.0", "two 1.0"] and texts["Some may."] == ["inside 1.0"]
    assert any("Maintainer: Ann" in text and owners == ["silent 1.0"] for text, owners in texts.items())
    assert not {"Others may.", "None may."} & set(texts)


@pytest.mark.parametrize(
    "head",
    [
        "# SPDX-License-Identifier: LicenseRef-NvidiaProprietary",
        '"""PRO is dual-licensed: PolyForm Noncommercial License 1.0.0, or ours."""',
        "# Licensed under CC BY-NC-SA 3.0 US.",
        '"""Released under GNU GPL v2 license or later."""',
        '# Magic Leap, Inc. ("COMPANY") CONFIDENTIAL',
    ],
)
def test_a_file_under_terms_of_its_own_is_left_out_of_a_permissive_package(corpus: Any, head: str) -> None:
    text = source_text("a")
    assert corpus.cleaned(text.encode())[1] == ""
    assert corpus.cleaned(f"{head}\n{text}".encode()) == ("", "licence header")


def test_the_terms_of_usual_licences_are_printed_once(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "corpus", corpus)
    begin, end = "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "END OF TERMS AND CONDITIONS"
    texts = [f"{begin}\n  all may\n{end}\nfor One", f"{begin} all\nmay {end}\nfor Two", f"{begin} some may {end}"]
    granted, above = (
        "Permission is hereby granted, free of charge, ... OR OTHER DEALINGS IN THE SOFTWARE.",
        "printed above",
    )
    texts += [f"(c) A\n{granted}", f"(c) B\n# {granted.replace(' OTHER', chr(10) + '# OTHER')}"]
    first, second, third, fourth, fifth = script("notices").shared_terms(texts)
    assert (first, third, fourth) == (texts[0], texts[2], texts[3])
    assert fifth.startswith("(c) B\n# [The terms of the MIT License") and above in fifth and "granted" not in fifth
    assert begin not in second and "printed above" in second and second.endswith("for Two")


def test_the_notices_of_the_built_in_model_name_every_package_of_its_card() -> None:
    card, notices = ((BUILTIN_FOLDER / name).read_text("utf-8") for name in ("README.md", "NOTICES.txt"))
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| [^|]+ \| [\d.]+ \|  \|$", card, re.MULTILINE)
    named = set(re.findall(r"^={79}\n(.*)\n-{79}$", notices, re.MULTILINE))
    owners = {owner for line in named for owner in line.split(", ")}
    assert len(rows) > 200
    assert {f"{name} {version}" for name, version in rows} - owners <= {
        f"python-stdlib {version}" for _, version in rows
    }
    of_npm = [
        line.split(", ") for line in re.findall(r"^\*\*.+\*\* \([\d,]+ packages?, [\d.]+ MB\): (.+)\.$", card, re.M)
    ]
    assert sum(map(len, of_npm)) > 2000
    assert {f"npm:{owner}" for line in of_npm for owner in line} <= owners
