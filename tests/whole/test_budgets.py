"""How much there may be: lines of each room, long functions, rooms; BUDGETS=update writes the table anew."""

import ast
import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.checkpoints import ROOT, TESTS

TABLE = TESTS / "budgets.json"
PACKAGES = ("backends", "chatapp", "model_store", "themes")
FOLDERS = (*PACKAGES, "benchmarks", "packaging", "tests")
FILE = 500
"""Lines of a file, at most."""
FUNCTION = 40
"""Lines of a function, of which there may be more in as many as the table says."""
ROOMS = 18
"""Rooms at the top of chatapp, at most."""
STEP = 50
"""Budgets are multiples of it, so that a line more or less is not yet a reason to raise one."""
ADVICE = "make it shorter, or say in the commit why it is worth it, and run: BUDGETS=update .venv/bin/pytest {}"


def files(*folders: str) -> list[Path]:
    """The modules of these folders."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def room_of(path: Path) -> str:
    """A package, or a folder in it; modules that lie in a package directly are together a room of its name."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION:
                yield f"{path.relative_to(ROOT)}: {node.name} has {count} lines"


@cache
def measure() -> dict[str, int]:
    """What the table has budgets for, as it is."""
    lines: Counter[str] = Counter()
    for path in files(*PACKAGES):
        lines[room_of(path)] += count_lines(path)
    long = sum(1 for path in files(*PACKAGES) for _ in long_functions(path))
    return {**dict(sorted(lines.items())), "whole": lines.total(), "long functions": long}


def round_up(name: str, count: int) -> int:
    return count if name == "long functions" else -(-count // STEP) * STEP


def test_every_room_and_the_whole_stay_within_their_budgets() -> None:
    found = measure()
    if os.environ.get("BUDGETS") == "update":
        budgets = {name: round_up(name, count) for name, count in found.items()}
        TABLE.write_text(json.dumps(budgets, indent=2) + "\n")
    budgets = json.loads(TABLE.read_text())
    advice = ADVICE.format(Path(__file__).relative_to(ROOT))
    over = [f"{name}: {found[name]} of {budgets.get(name, 0)}" for name in found if found[name] > budgets.get(name, 0)]
    long = [one for path in files(*PACKAGES) for one in long_functions(path)] if "long functions" in str(over) else []
    assert not over, "\n".join([*over, *long, advice])
    assert not budgets.keys() - found.keys(), f"rooms that are no more: {budgets.keys() - found.keys()}; {advice}"


def test_no_file_is_long() -> None:
    long = {path: count for path in files(*FOLDERS) if (count := count_lines(path)) > FILE}
    assert not long, f"more than {FILE} lines; split by idea, or shorten"


def test_the_application_has_few_rooms() -> None:
    rooms = [path.name for path in (ROOT / "chatapp").iterdir() if not path.name.startswith("__")]
    assert len(rooms) <= ROOMS, sorted(rooms)


def test_what_is_too_much_is_seen() -> None:
    """Otherwise the budgets would prove nothing."""
    found = measure()
    assert found["whole"] == sum(count for name, count in found.items() if name not in ("whole", "long functions"))
    assert all(count > 0 for name, count in found.items() if name != "long functions")
    assert {"chatapp/cli", "chatapp/tui", "model_store/hub", "backends/onnx"} <= found.keys()
