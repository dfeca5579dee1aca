"""Find the chat template that a checkpoint's publisher wrote."""

from pathlib import Path

from model_store.errors import UnsupportedCheckpoint
from model_store.files import optional_json, read_text

LONGEST = 1_000_000
"""Longest template in characters; publishers' longest is a twentieth of it."""


def chat_template(folder: Path) -> str | None:
    """The template for conversations, None if there is none: of several the default one, or the only one."""
    templates = published(folder)
    if not templates or "default" in templates:
        return templates.get("default")
    if len(templates) > 1:
        raise UnsupportedCheckpoint(
            f"{folder} has the chat templates {', '.join(sorted(templates))} and no default; "
            "copy the one to be used to chat_template.jinja there"
        )
    return next(iter(templates.values()))


def published(folder: Path) -> dict[str, str]:
    """All templates by name: in tokenizer_config.json and, with precedence, in files of their own."""
    entries = optional_json(folder / "tokenizer_config.json").get("chat_template") or {}
    if isinstance(entries, str):
        entries = {"default": entries}
    if isinstance(entries, list):
        entries = {entry.get("name"): entry.get("template") for entry in entries if isinstance(entry, dict)}
    if not isinstance(entries, dict) or not all(isinstance(text, str) for pair in entries.items() for text in pair):
        raise UnsupportedCheckpoint(f"{folder / 'tokenizer_config.json'} has an invalid chat_template; correct it")
    files = {path.stem: path for path in sorted(folder.glob("additional_chat_templates/*.jinja"))}
    if (folder / "chat_template.jinja").is_file():
        files["default"] = folder / "chat_template.jinja"
    templates = entries | {name: read(path) for name, path in files.items()}
    for name, text in templates.items():
        if len(text) > LONGEST:
            path = files.get(name, folder / "tokenizer_config.json")
            raise UnsupportedCheckpoint(f"{path} has a chat template larger than 1 MB; correct it")
    return templates


def read(path: Path) -> str:
    """The template in a file."""
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnsupportedCheckpoint(f"cannot read {path}: {why}; download it again") from error
