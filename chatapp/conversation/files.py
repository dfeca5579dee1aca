"""Exports conversations to files and imports them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chatapp.history import exports, imported
from chatapp.text.errors import InputError, UsageError
from chatapp.text.files import expand, find_free, read_input, write_whole

if TYPE_CHECKING:
    from chatapp.history import Conversation, History

ExportForm = Literal["markdown", "html", "json"]
FORMS: Mapping[str, ExportForm] = {"markdown": "markdown", "md": "markdown", "html": "html", "json": "json"}
"""The export formats, by name and by file ending."""


def text_of(history: History, conversations: Sequence[Conversation], form: ExportForm) -> str:
    """Conversations as one text: JSON has every message, the other forms only the branch that is shown."""
    if form == "json":
        return exports.as_json(((one, history.tree(one.id)) for one in conversations), history.tokens)
    if form == "markdown":
        return "\n".join(exports.as_markdown(one, history.messages(one.id)) for one in conversations)
    from chatapp.history import pages

    return pages.as_html([(one, history.messages(one.id)) for one in conversations])


def form_of(path: Path) -> ExportForm:
    """The export format for a file's ending."""
    if form := FORMS.get(path.suffix[1:].lower()):
        return form
    raise UsageError(f"{path.name} must end in .md, .html or .json")


def write(path: Path, text: str) -> Path:
    """Write a file and return its path; if that fails, the old content stays."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another place") from error
    return path


def export(history: History, number: int, form: ExportForm | None = None, given: str = "") -> Path:
    """Export a conversation to a new file.

    Without a path one is made from the title; without a form, the path's ending decides.
    """
    conversation = history.get(number)
    path = expand(given) if given else free_name(conversation.title, form or "markdown")
    form = form or form_of(path)
    if path.exists():
        raise InputError(f"{path} already exists and was not changed; choose another name")
    return write(path, text_of(history, [conversation], form)).absolute()


def free_name(title: str, form: ExportForm) -> Path:
    """An unused file name made from the words of a title."""
    words = "-".join(re.findall(r"\w+", title.lower()))[:40].strip("-") or "conversation"
    return find_free(Path(), words, "md" if form == "markdown" else form)


def import_file(history: History, file: str) -> imported.Batch:
    """Import the conversations of a file (`-`: standard input), chatapp's or another program's."""
    if file.lower().endswith(".zip"):
        raise InputError(f"{file} is an archive; unpack it and import its conversations.json")
    text = read_input(str(expand(file)) if file not in ("", "-") else file)
    batch = imported.read(text, "standard input" if file == "-" else file)
    for one in batch.conversations:
        history.restore(one.conversation, one.messages, one.tokens)
    return batch


def count(number: int) -> str:
    """The number of conversations in words."""
    return f"{number:,} conversation{'s' * (number != 1)}"


def describe_import(batch: imported.Batch) -> str:
    """Lines that say what an import brought and what it left out."""
    lines = [f"{count(len(batch.conversations))} imported"]
    if batch.left_out:
        lines.append("left out: " + ", ".join(f"{many} {what}" for what, many in sorted(batch.left_out.items())))
    return "\n".join(lines + [f"not imported: {reason}" for reason in batch.refused])
