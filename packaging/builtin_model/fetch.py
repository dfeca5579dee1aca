"""Fetches what the corpus is made of: wheels of PyPI and tarballs of npm, of the versions listed.

A wheel for any Python and any system will do, since only its source text is read; nothing of a package is run.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import npm

HERE = Path(__file__).parent
WHEELS = (HERE / "packages.txt", HERE / "more_packages.txt")
NPM = HERE / "npm_packages.txt"
AT_ONCE = 16
"""Packages that one call of npm fetches."""
PYTHONS = ("3.14", "3.13", "3.12", "3.11", "3.10")
"""Tried in turn where a package has no wheel for the Python that runs this."""

Package = tuple[str, str]
"""A package's name and version."""


def listed(file: Path) -> Iterator[Package]:
    """Yields the names and versions of a list of requirements."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([^#=\s]+)==([^\s#]+)", line):
            yield found[1], found[2]


def spelt(name: str) -> str:
    """Spells a package's name as the files of wheels do."""
    return re.sub(r"[-_.]+", "_", name).lower()


def wheels_in(folder: Path) -> set[Package]:
    """Gives the names, as wheels spell them, and the versions of the wheels in a folder."""
    parts = (wheel.name.split("-") for wheel in folder.glob("*.whl"))
    return {(spelt(name), version) for name, version, *_ in parts}


def fetch_wheel(folder: Path, name: str, version: str) -> str:
    """Fetches a wheel, and says what went wrong, if anything did."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
    command += ["--only-binary", ":all:"]
    for python in ("", *PYTHONS):
        other = ("--python-version", python) if python else ()
        done = subprocess.run([*command, *other, "-d", folder, f"{name}=={version}"], capture_output=True, text=True)
        if not done.returncode:
            return ""
    return f"{name} {version}: {done.stderr.strip()[-200:]}"


def fetch_tarballs(folder: Path, packages: list[Package]) -> list[str]:
    """Fetches packages of npm by one call, or by one for each that it failed to; says what went wrong."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        specs = [f"{name}@{version}" for name, version in packages]
        command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", temporary, *specs]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True)
        for name, version in packages:
            file = Path(temporary) / f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
            if file.exists():
                file.rename(folder / npm.tarball(name, version))
    left = [each for each in packages if not (folder / npm.tarball(*each)).exists()]
    if len(packages) == 1:
        return [f"{name} {version}: {done.stderr.strip()[-200:]}" for name, version in left]
    return [error for each in left for error in fetch_tarballs(folder, [each])]


def fetch_wheels(folder: Path) -> list[str]:
    """Fetches the wheels that are not there, and says what went wrong."""
    there = wheels_in(folder)
    missing = [each for file in WHEELS for each in listed(file) if (spelt(each[0]), each[1]) not in there]
    with ThreadPoolExecutor(4) as pool:
        return [error for error in pool.map(lambda each: fetch_wheel(folder, *each), missing) if error]


def fetch_npm(folder: Path) -> list[str]:
    """Fetches the tarballs that are not there, and says what went wrong."""
    missing = [each for each in listed(NPM) if not (folder / npm.tarball(*each)).exists()]
    batches = (missing[i : i + AT_ONCE] for i in range(0, len(missing), AT_ONCE))
    return [error for batch in batches for error in fetch_tarballs(folder, batch)]


def main() -> None:
    """Parses the command line and fetches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only-npm", action="store_true", help="leave out all of Python")
    arguments = parser.parse_args()
    fetchers: dict[str, Callable[[Path], list[str]]] = {"npm": fetch_npm}
    if not arguments.only_npm:
        fetchers["wheels"] = fetch_wheels
    errors: list[str] = []
    for name, fetch in fetchers.items():
        folder = arguments.work / name
        folder.mkdir(parents=True, exist_ok=True)
        errors += fetch(folder)
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
