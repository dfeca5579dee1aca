"""What the documents name is there: files, links, headings."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", ["architecture.md", "../CONTRIBUTING.md"])
def test_the_files_that_the_map_names_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    rooms = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    named = set(re.findall(rf"`((?:{rooms})/[\w./-]*)`", text))
    assert len(named) > 10
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_modules_that_a_package_says_it_has_exist() -> None:
    packages = [
        path for folder in ("backends", "chatapp", "model_store") for path in (ROOT / folder).rglob("__init__.py")
    ]
    named = [path.parent / name for path in packages for name in re.findall(r"`(\w+\.py)`", path.read_text("utf-8"))]
    assert len(named) > 5
    assert not [path for path in named if not path.exists()]


def test_every_station_of_a_message_is_where_the_map_says() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    stations = re.findall(r"^\d+\. `([\w.]+)` in `([\w/.]+)`", text, re.M)
    assert 10 < len(stations) <= 16
    for name, file in stations:
        source = (ROOT / file).read_text("utf-8")
        assert all(re.search(rf"\b(?:class|def) {part}\b", source) for part in name.split(".")), name


def test_nobody_is_told_to_fetch_the_package_of_this_name_which_is_somebody_elses() -> None:
    folders = ["chatapp", "model_store", "backends", "docs", "packaging"]
    texts = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".ts", ".sh")
    ]
    wrong = re.compile(r"\b(pip|pipx|uv tool) install (--?[\w-]+ )*['\"]?chatapp\b(?![-_])")
    told = [
        path for path in [*PAGES, *texts] if "node_modules" not in path.parts and wrong.search(path.read_text("utf-8"))
    ]
    assert not told
