"""The card that a publisher writes about a model."""

import re
from contextlib import suppress
from pathlib import Path

from model_store.files import read_text, stays


def introduction(folder: Path) -> str:
    """The card of the checkpoint in `folder` up to its first section, without front matter and title, if it has one."""
    path = folder / "README.md"
    if not path.is_file() or not stays(path):
        return ""
    card = read_text(path, "replace")
    if card.startswith("---\n"):
        card = card.partition("\n---\n")[2]
    lines = card.strip().split("\n")
    body = lines[1:] if lines[0].startswith("# ") else lines
    end = next((place for place, line in enumerate(body) if line.startswith("#")), len(body))
    return "\n".join(body[:end]).strip()


def licence(folder: Path) -> str:
    """A model's licence, where its folder has one."""
    for path in sorted(folder.glob("LICENSE*")):
        if stays(path):
            return read_text(path, "replace").strip()
    card = folder / "README.md"
    if stays(card):
        with suppress(OSError):
            if found := re.search(r"(?m)^license:\s*(\S.*)$", read_text(card, "replace")):
                return f"Its card says: {found[1]}"
    return ""
