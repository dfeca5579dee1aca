"""Collects the licences and notices of all that a model was trained on, each text once.

    python notices.py --work W --out W/model

A model may know parts of its sources by heart, so their notices are shipped with it.
"""

import argparse
import email.message
import itertools
import json
import re
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import npm
from corpus import normalised, read_metadata

FILE = "NOTICES.txt"
NAMED = r"[^/]*(licen[cs]e|copying|notice|copyright|authors)[^/]*"
PLACES = re.compile(rf"[^/]+\.dist-info/(.*/)?{NAMED}", re.I), re.compile(rf"[^/]+/{NAMED}(?<!\.py)(?<!\.pyi)", re.I)
"""Where a wheel has its licences: beside its metadata, or else in the package."""
FOREIGN = re.compile(r"third.?party|vendor", re.I)
"""Of what the corpus leaves out."""
HEADING = """\
The built-in model was trained on source files of these packages. It may know parts of them by heart (README.md says
how much), so their licences and notices are kept here, each text once, under the names of all that it came with.
The terms of the Apache License 2.0, which stand in many of them, are printed where they come first.
"""
TERMS = re.compile(r"TERMS AND CONDITIONS FOR USE, REPRODUCTION.*?END OF TERMS AND CONDITIONS", re.S)


def notices(wheels: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the normalised name of each wheel's package, what its metadata tell and the texts of its licences."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names, meta = [name for name in archive.namelist() if not FOREIGN.search(name)], read_metadata(archive)
            here = next(filter(None, ([name for name in names if place.fullmatch(name)] for place in PLACES)), [])
            texts = [archive.read(name).decode("utf-8", "replace") for name in here]
            yield normalised(meta["Name"]), stated_terms(meta), texts


def npm_notices(tarballs: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the name of each tarball's package, what its package.json tells and the texts of its licences."""
    for tarball in sorted(tarballs.glob("*.tgz")):
        manifest, texts = npm.read_licences(tarball)
        fields = ("name", "author", "contributors", "license", "licenses", "homepage", "repository")
        lines = [f"{field}: {stated_field(manifest[field])}" for field in fields if manifest.get(field)]
        stated = "\n".join(["Its package has no file of its licence; its package.json says:", *lines])
        yield npm.PREFIX + npm.tarball_name(tarball), stated, texts


def stated_field(field: object) -> str:
    """Spells what a field of package.json says."""
    return field if isinstance(field, str) else json.dumps(field, ensure_ascii=False)


def stated_terms(meta: email.message.Message) -> str:
    """Says what a package's metadata tell of its terms, where no file does."""
    fields = (
        "Name",
        "Author",
        "Author-email",
        "Maintainer",
        "License-Expression",
        "License",
        "Home-page",
        "Project-URL",
    )
    lines = [f"{field}: {value}" for field in fields for value in (meta.get_all(field) or [])[:2]]
    licences = [line for line in meta.get_all("Classifier") or [] if line.startswith("License")]
    return "\n".join(["Its package has no file of its licence; its metadata say:", *lines, *licences])


def collect(work: Path) -> dict[str, tuple[str, list[str]]]:
    """Gives the different texts, by their words: each as it was found first, and whose it is."""
    sources = json.loads((work / "sources.json").read_text(encoding="utf-8"))["sources"]
    trained = {source["package"]: source for source in sources if source["bytes"] and not source["heldout"]}
    standard = (Path(sysconfig.get_path("stdlib")) / "LICENSE.txt").read_text(encoding="utf-8")
    texts: dict[str, tuple[str, list[str]]] = {" ".join(standard.split()): (standard, ["python-stdlib"])}
    missing = set(trained) - {"python-stdlib"}
    for name, stated, found in itertools.chain(notices(work / "wheels"), npm_notices(work / "npm")):
        if name in trained:
            missing.discard(name)
            for text in found or [stated]:
                texts.setdefault(" ".join(text.split()), (text, []))[1].append(f"{name} {trained[name]['version']}")
    if missing:
        raise SystemExit(f"no wheel or tarball of {', '.join(sorted(missing))} in {work}")
    return texts


def shared_terms(texts: list[str]) -> list[str]:
    """Replaces the terms of the Apache License where a text before has them word for word."""
    printed: set[str] = set()

    def replaced(found: re.Match[str]) -> str:
        words = " ".join(found[0].split())
        if words in printed:
            return "[The terms of the Apache License, Version 2.0, as they are printed above in full.]"
        printed.add(words)
        return found[0]

    return [TERMS.sub(replaced, text) for text in texts]


def main() -> None:
    """Parses the command line and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder with sources.json, the wheels and the tarballs"
    )
    parser.add_argument("--out", type=Path, required=True, help="the exported folder")
    arguments = parser.parse_args()
    parts = [HEADING]
    found = collect(arguments.work).values()
    for text, (_, owners) in zip(shared_terms([text for text, _ in found]), found, strict=True):
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"{'=' * 79}\n{', '.join(sorted(set(owners)))}\n{'-' * 79}\n{lines}\n")
    (arguments.out / FILE).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
