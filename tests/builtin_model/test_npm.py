"""The part of the corpus that comes from npm: what of a tarball is a source, and what a compiler made."""

import io
import json
import random
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from support.checkpoints import ROOT

RECIPE = ROOT / "packaging" / "builtin_model"


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(RECIPE)
    for name in ("corpus", "npm"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import corpus  # type: ignore[import-not-found, unused-ignore]

    return corpus


def source_text(seed: str, functions: int = 12, typed: bool = True) -> str:
    chance = random.Random(seed)
    words = [a + b for a in ("read", "write", "merge", "split") for b in ("Lines", "Words", "Pages", "Names")]
    kind = ": string" if typed else ""
    return "\n".join(
        f"export function {chance.choice(words)}{chance.randrange(1000)}(text{kind}) {{\n"
        f"  const found = {chance.choice(words)}(text, {chance.randrange(1000)});\n"
        f"  return {chance.choice(words)}(found);\n}}\n"
        for _ in range(functions)
    )


def compiled_text(seed: str) -> str:
    return '"use strict";\nObject.defineProperty(exports, "__esModule", { value: true });\n' + source_text(
        seed, typed=False
    )


def make_tarball(work: Path, name: str, files: dict[str, str], **manifest: object) -> None:
    (work / "npm").mkdir(parents=True, exist_ok=True)
    files = {"package.json": json.dumps({"name": name, "version": "1.0.0", "license": "MIT", **manifest}), **files}
    with tarfile.open(work / "npm" / f"{name.replace('/', '__')}-1.0.0.tgz", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def source_map(sources: dict[str, str | None]) -> str:
    return json.dumps({"version": 3, "sources": list(sources), "sourcesContent": list(sources.values())})


def kept(corpus: Any, work: Path) -> Any:
    made = corpus.Corpus()
    for source, files in corpus.npm_packages(work / "npm"):
        made.read_source(source, files)
    return made


def paths(documents: list[dict[str, str]]) -> list[tuple[str, str]]:
    return sorted((each["package"], each["path"]) for each in documents)


def test_sources_are_read_and_what_was_compiled_of_them_is_not(corpus: Any, tmp_path: Path) -> None:
    files = {
        "src/index.ts": source_text("a"), "src/other.mjs": source_text("b", typed=False),
        "dist/index.js": source_text("a", typed=False), "dist/whole.js": source_text("c", typed=False),
        "src/index.d.ts": source_text("d"), "src/locales/de.ts": source_text("e"), "src/all.min.js": source_text("f"),
        "README.md": source_text("g"),
    }  # fmt: skip
    make_tarball(tmp_path, "@scope/plain", files)
    made = kept(corpus, tmp_path)
    assert paths(made.train) == [("npm:@scope/plain", "src/index.ts"), ("npm:@scope/plain", "src/other.mjs")]
    assert [(source.package, source.licence, source.files) for source in made.sources] == [
        ("npm:@scope/plain", "MIT", 2)
    ]


def test_a_source_map_gives_what_a_file_was_compiled_from(corpus: Any, tmp_path: Path) -> None:
    held = {
        "../src/index.ts": source_text("a"), "../node_modules/other/index.ts": source_text("b"),
        "../../../other/index.ts": source_text("c"), "../src/none.ts": None,
        "webpack://mapped/./src/web.ts": source_text("d"), "webpack/bootstrap": source_text("e"),
    }  # fmt: skip
    make_tarball(tmp_path, "mapped", {"dist/index.js": compiled_text("a"), "dist/index.js.map": source_map(held)})
    make_tarball(tmp_path, "broken", {"dist/index.js.map": "{"})
    found = paths(kept(corpus, tmp_path).train)
    assert found == [("npm:mapped", "src/index.ts"), ("npm:mapped", "src/web.ts")]


@pytest.mark.parametrize(
    "text",
    [
        compiled_text("a"),
        "import { __awaiter } from 'tslib';\n" + source_text("a", typed=False),
        source_text("a", typed=False).replace("\n\n", "\n"),
        "// src/index.ts\n" + source_text("a", typed=False),
        source_text("a", typed=False) + "//# sourceMappingURL=index.js.map\n",
        source_text("a", typed=False).replace("text", "t").replace("found", "n"),
        "export default {\n" + "".join(f'  name{i}: "value {i}",\n\n' for i in range(40)) + "};\n",
        "// @flow\n" + source_text("a", typed=False),
        "/* Licensed under the Elastic License 2.0. */\n" + source_text("a", typed=False),
    ],
)
def test_what_was_not_written_by_hand_or_for_all_is_left_out(corpus: Any, text: str) -> None:
    assert corpus.cleaned_javascript("index.js", source_text("a", typed=False).encode())[1] == ""
    assert corpus.cleaned_javascript("index.js", text.encode())[1]


def test_a_licence_at_the_beginning_is_dropped_and_tabs_are_kept(corpus: Any) -> None:
    text = source_text("a").replace("  ", "\t")
    head = "/*\n * Copyright Ann\n */\n\n// SPDX-License-Identifier: MIT\n\n"
    assert corpus.cleaned_javascript("a.ts", (head + text).encode()) == (text, "")
    about = "// Reads what was written.\n" + text
    assert corpus.cleaned_javascript("a.ts", (head + about).encode()) == (about, "")


@pytest.mark.parametrize(
    ("manifest", "accepted"),
    [
        ({"license": "(MIT OR GPL-3.0)"}, True),
        ({"license": "MIT AND GPL-3.0"}, False),
        ({"license": {"type": "BSD-3-Clause"}}, True),
        ({"license": None, "licenses": [{"type": "MIT"}, {"type": "Apache-2.0"}]}, True),
        ({"license": "SEE LICENSE IN LICENSE"}, False),
        ({"license": "AGPL-3.0-only"}, False),
        ({"license": None}, False),
    ],
)
def test_a_package_of_npm_is_read_under_a_permissive_licence_only(
    corpus: Any, tmp_path: Path, manifest: dict[str, object], accepted: bool
) -> None:
    make_tarball(tmp_path, "some", {"src/index.ts": source_text("a")}, **manifest)
    assert bool(kept(corpus, tmp_path).train) is accepted


def test_held_out_packages_are_read_last_and_lose_what_they_share(
    corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus.npm, "HELD_OUT", {"apart"})
    make_tarball(tmp_path, "apart", {"src/own.ts": source_text("a"), "src/copy.ts": source_text("b") + "// more\n"})
    make_tarball(tmp_path, "trained", {"src/index.ts": source_text("b")})
    made = kept(corpus, tmp_path)
    assert paths(made.train) == [("npm:trained", "src/index.ts")]
    assert paths(made.heldout["heldout_npm"]) == [("npm:apart", "src/own.ts")]
    assert not made.heldout["heldout_package"] and made.dropped == {"npm: near duplicate": 1}


def test_no_package_gives_more_than_its_share(corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus.npm, "MOST_BYTES", 1000)
    make_tarball(tmp_path, "large", {f"src/{name}.ts": source_text(name) for name in "abcdef"})
    made = kept(corpus, tmp_path)
    assert len(made.train) == 1 and made.dropped == {"npm: above the limit": 5}


def test_packages_of_npm_alone_make_a_corpus(corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tarball(tmp_path, "some", {"src/index.ts": source_text("a")})
    monkeypatch.setattr(sys, "argv", ["corpus.py", "--work", str(tmp_path), "--only-npm"])
    corpus.main()
    assert {each.name for each in tmp_path.glob("*.json*")} == {"train.jsonl", "sources.json"}
    assert json.loads((tmp_path / "sources.json").read_text())["sources"][0]["package"] == "npm:some"
