"""Builds the site of the documents into build/site/html: strict, and without anything that is fetched when it is read.

pip install mkdocs-material && PYTHONPATH=. python packaging/site/build.py
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SITE = ROOT / "build" / "site"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def relink(text: str, page: Path) -> str:
    """The page with the name in place of a link to what is no page of the site; links to pages lead on."""

    def settle(found: re.Match[str]) -> str:
        words, address = found[1], found[2]
        path, _, anchor = address.partition("#")
        if "://" in address or not path:
            return found[0]
        target = (page.parent / path).resolve()
        if page.parent == ROOT and target.is_relative_to(ROOT / "docs"):
            return f"[{words}]({target.relative_to(ROOT / 'docs').as_posix()}{'#' + anchor if anchor else ''})"
        if target.is_relative_to(ROOT / "docs") and target.is_file():
            return found[0]
        return f"{words} (`{target.relative_to(ROOT).as_posix()}`)"

    return LINK.sub(settle, text)


def gather() -> None:
    """Copy the documents, with the README as the first page, and write the reference."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SITE / "docs")
    for page in (ROOT / "docs").rglob("*.md"):
        copy = SITE / "docs" / page.relative_to(ROOT / "docs")
        copy.write_text(relink(page.read_text("utf-8"), page), encoding="utf-8")
    index = relink((ROOT / "README.md").read_text("utf-8"), ROOT / "README.md")
    (SITE / "docs" / "index.md").write_text(re.sub(r"<!--.*?-->\n?", "", index), encoding="utf-8")
    shutil.copy(ROOT / "chatapp" / "desktop" / "page" / "icon.svg", SITE / "docs")
    command: list[str | Path] = [sys.executable, ROOT / "packaging" / "reference.py", "markdown"]
    reference = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    (SITE / "docs" / "reference.md").write_text(reference.replace("<", "&lt;"), encoding="utf-8")


if __name__ == "__main__":
    gather()
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--config-file", HERE / "mkdocs.yml"], check=True)
