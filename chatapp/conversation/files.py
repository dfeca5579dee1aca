"""Conversations to files and back."""

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
"""The forms of an export, by their names and by the endings of files."""


def text_of(history: History, conversations: Sequence[Conversation], form: ExportForm) -> str:
    """Conversations as one text: JSON has everything, the others the branch that is shown."""
    if form == "json":
        return exports.as_json(((one, history.tree(one.id)) for one in conversations), history.tokens)
    if form == "markdown":
        return "\n".join(exports.as_markdown(one, history.messages(one.id)) for one in conversations)
    from chatapp.history import pages

    return pages.as_html([(one, history.messages(one.id)) for one in conversations])


def form_of(path: Path) -> ExportForm:
    """The form that a file's ending says."""
    if form := FORMS.get(path.suffix[1:].lower()):
        return form
    raise UsageError(f"{path.name} ends with none of .md, .html and .json; say what to write by the ending")


def write(path: Path, text: str) -> Path:
    """Write a file, and give its path; where that fails, what was there stays."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another place") from error
    return path


def export(history: History, number: int, form: ExportForm | None = None, given: str = "") -> Path:
    """Write a conversation to a file that is not there yet.

    Without a path its title is made one; without a form, the path's ending says which.
    """
    conversation = history.get(number)
    path = expand(given) if given else free_name(conversation.title, form or "markdown")
    form = form or form_of(path)
    if path.exists():
        raise InputError(f"{path} is there already, and stays as it is; give another name")
    return write(path, text_of(history, [conversation], form)).absolute()


def free_name(title: str, form: ExportForm) -> Path:
    """A name for a file, of the words of a title; none that is there already."""
    words = "-".join(re.findall(r"\w+", title.lower()))[:40].strip("-") or "conversation"
    return find_free(Path(), words, "md" if form == "markdown" else form)


def import_file(history: History, file: str) -> imported.Batch:
    """Add the conversations of a file (`-`: standard input), ours, ChatGPT's, Claude's or Ollama's."""
    if file.lower().endswith(".zip"):
        raise InputError(f"{file} is an archive; unpack it and import its conversations.json")
    text = read_input(str(expand(file)) if file not in ("", "-") else file)
    batch = imported.read(text, "standard input" if file == "-" else file)
    for one in batch.conversations:
        history.restore(one.conversation, one.messages, one.tokens)
    return batch


def count(number: int) -> str:
    """So many conversations, in words."""
    return f"{number:,} conversation{'s' * (number != 1)}"


def describe_import(batch: imported.Batch) -> str:
    """The conversations that an import brought, and what it left out, in lines."""
    lines = [f"{count(len(batch.conversations))} imported"]
    if batch.left_out:
        lines.append("left out: " + ", ".join(f"{many} {what}" for what, many in sorted(batch.left_out.items())))
    return "\n".join(lines + [f"not imported: {reason}" for reason in batch.refused])
