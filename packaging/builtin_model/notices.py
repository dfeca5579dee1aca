"""Collects the licences and notices of all that a model was trained on, each text once.

    python notices.py --work W --out W/model

A model may know parts of its sources by heart, so their notices are shipped with it.
"""

import argparse
import email.message
import functools
import json
import re
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import npm
from corpus import normalised, read_metadata

FILE = "NOTICES.txt"
NAMED = r"[^/]*(licen[cs]e|copying|notice|copyright|authors)[^/]*"
PLACES = re.compile(rf"[^/]+\.dist-info/(.*/)?{NAMED}", re.I), re.compile(rf"[^/]+/{NAMED}(?<!\.py)(?<!\.pyi)", re.I)
"""Where a wheel has its licences: beside its metadata, or else in the package."""
AT_ROOT = re.compile(r"[^/]+/((un)?licen[cs]e|copying|notice|copyright|authors)[^/]*(?<!\.[jt]s)(?<!\.json)", re.I)
"""Where a tarball of npm has its licences: in the uppermost folder, which most call package/."""
MANIFEST = re.compile(r"[^/]+/package\.json")
FOREIGN = re.compile(r"third.?party|vendor", re.I)
"""Of what the corpus leaves out."""
HEADING = """\
The built-in model was trained on files of these packages: Python's, and, where a name begins with npm:, JavaScript's
and TypeScript's. It may know parts of them by heart (README.md says
how much), so their licences and notices are kept here, each text once, under the names of all that it came with.
The terms of the Apache, MIT, ISC and BSD licences, which stand in many of them, are printed where they come first.
"""
TERMS = {
    "Apache License, Version 2.0": r"TERMS AND CONDITIONS FOR USE, REPRODUCTION.*?END OF TERMS AND CONDITIONS",
    "MIT License": r"Permission is hereby granted, free of charge.*?DEALINGS\s+IN\s+THE\s+SOFTWARE\.?",
    "ISC License": r"Permission to use, copy, modify,.{1,10}distribute this software.*?OF\s+THIS\s+SOFTWARE\.?",
    "BSD License": r"Redistribution and use in source and binary forms.*?POSSIBILITY\s+OF\s+SUCH\s+DAMAGE\.?",
}
"""What many texts have in common, by name: each wording is printed once."""
Source = dict[str, str]
"""A package, as the corpus lists it."""


def notices(wheels: Path) -> Iterator[tuple[str, email.message.Message, list[str]]]:
    """Yields the normalised name of each wheel's package, its metadata and the texts of its licences."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            names, meta = [name for name in archive.namelist() if not FOREIGN.search(name)], read_metadata(archive)
            here = next(filter(None, ([name for name in names if place.fullmatch(name)] for place in PLACES)), [])
            yield normalised(meta["Name"]), meta, [archive.read(name).decode("utf-8", "replace") for name in here]


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


def npm_notices(tarball: Path) -> list[str]:
    """Reads the texts of the licences in a tarball, or else what its package.json says; unpacks nothing."""
    found: dict[str, str] = {}
    manifest = "{}"
    with tarfile.open(tarball, "r|gz") as archive:
        for member in archive:
            notice, states = AT_ROOT.fullmatch(member.name), MANIFEST.fullmatch(member.name)
            content = archive.extractfile(member) if member.isfile() and (notice or states) else None
            text = content.read().decode("utf-8-sig", "replace") if content else ""
            if text.strip() and notice:
                found[member.name] = text
            elif text and states:
                manifest = text
    return [found[name] for name in sorted(found)] or [stated_in(json.loads(manifest))]


def stated_in(manifest: dict[str, object]) -> str:
    """Says what a package.json tells of a package's terms, where no file does."""
    fields = ("name", "author", "contributors", "maintainers", "license", "licenses", "repository", "homepage")
    lines = [f"{field}: {as_words(manifest[field])}" for field in fields if manifest.get(field)]
    return "\n".join(["Its package has no file of its licence; its package.json says:", *lines])


def as_words(stated: object) -> str:
    """Spells what a package.json states of people, licences or addresses."""
    if isinstance(stated, dict):
        return " ".join(str(stated[part]) for part in ("name", "type", "email", "url") if stated.get(part))
    return "; ".join(map(as_words, stated)) if isinstance(stated, list) else str(stated)


def collect(work: Path) -> dict[str, tuple[str, list[str]]]:
    """Gives the different texts, by their words: each as it was found first, and whose it is."""
    sources: list[Source] = json.loads((work / "sources.json").read_text(encoding="utf-8"))["sources"]
    trained = {source["package"]: source for source in sources if source["bytes"] and not source["heldout"]}
    standard = (Path(sysconfig.get_path("stdlib")) / "LICENSE.txt").read_text(encoding="utf-8")
    texts: dict[str, tuple[str, list[str]]] = {" ".join(standard.split()): (standard, ["python-stdlib"])}
    of_npm = {name for name in trained if npm.is_npm(name)}
    missing = set(trained) - of_npm - {"python-stdlib"}
    for name, meta, found in notices(work / "wheels"):
        if name in trained:
            missing.discard(name)
            for text in found or [stated_terms(meta)]:
                texts.setdefault(" ".join(text.split()), (text, []))[1].append(f"{name} {trained[name]['version']}")
    for name in sorted(of_npm):
        version = trained[name]["version"].lstrip("v=")  # some state a v before it, which their tarball has not
        for text in npm_notices(work / "npm" / npm.tarball(name, version)):
            texts.setdefault(" ".join(text.split()), (text, []))[1].append(f"{name} {trained[name]['version']}")
    if missing:
        raise SystemExit(f"no wheel of {', '.join(sorted(missing))} in {work / 'wheels'}")
    return texts


def shared_terms(texts: list[str]) -> list[str]:
    """Replaces the terms of usual licences where a text before has them word for word."""
    printed: set[str] = set()

    def replaced(name: str, found: re.Match[str]) -> str:
        words = " ".join(re.sub(r"^[\s*#/]+", "", found[0], flags=re.M).split())
        if words in printed:
            return f"[The terms of the {name}, word for word as they are printed above.]"
        printed.add(words)
        return found[0]

    for name, pattern in TERMS.items():
        texts = [re.sub(pattern, functools.partial(replaced, name), text, flags=re.S) for text in texts]
    return texts


def main() -> None:
    """Parses the command line and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder with sources.json, the wheels and the tarballs of npm"
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
