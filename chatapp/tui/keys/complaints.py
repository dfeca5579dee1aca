"""Complaints about the user's own files: shown once, and again after one of them has changed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def take_untold(complaints: Sequence[str], home: Path) -> Sequence[str]:
    """The complaints not shown yet, which count as shown from now on."""
    if not complaints:
        return ()
    import json

    own = [home / "keys.toml", *(home / "themes").glob("*.toml")]
    now = {"changed": max((path.stat().st_mtime_ns for path in own if path.exists()), default=0)}
    record, told = home / "told.json", list[str]()
    with suppress(OSError, ValueError, TypeError, KeyError):
        before = json.loads(record.read_text(encoding="utf-8"))
        told = before["told"] if before["changed"] == now["changed"] else []
    new = [complaint for complaint in complaints if complaint not in told]
    if new:
        with suppress(OSError):  # then they are shown again next time
            record.write_text(json.dumps({**now, "told": [*complaints]}), encoding="utf-8")
    return new
