"""The card that a publisher writes about a model."""

import re
from contextlib import suppress
from pathlib import Path


def introduction(folder: Path) -> str:
    """The card of the checkpoint in `folder` up to its first section, without front matter and title, if it has one."""
    path = folder / "README.md"
    if not path.is_file():
        return ""
    card = path.read_text(encoding="utf-8", errors="replace")
    if card.startswith("---\n"):
        card = card.partition("\n---\n")[2]
    lines = card.strip().split("\n")
    body = lines[1:] if lines[0].startswith("# ") else lines
    end = next((place for place, line in enumerate(body) if line.startswith("#")), len(body))
    return "\n".join(body[:end]).strip()


def licence(folder: Path) -> str:
    """A model's licence, where its folder has one."""
    for path in sorted(folder.glob("LICENSE*")):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    with suppress(OSError):
        card = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"(?m)^license:\s*(\S.*)$", card):
            return f"Its card says: {found[1]}"
    return ""
