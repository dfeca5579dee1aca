"""Read what Ollama's `/save` keeps: a Modelfile with MESSAGE lines, or messages as JSON.

`ollama show --modelfile NAME` prints the former; the latter is the model's layer of messages, or the request that
created it.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from chatapp.history import Conversation, Message, NotUnderstood, Role
from chatapp.history.imported import KNOWN, Batch, Imported, shorten, take

LEFT_OUT = {"ADAPTER", "DRAFT", "LICENSE", "PARAMETER", "PARSER", "RENDERER", "REQUIRES", "TEMPLATE"}
"""Commands of a Modelfile about the model."""
ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
MESSAGE_FIELDS = {"role", "content"}
ABOUT_MESSAGES = {"images", "thinking", "tool_calls", "tool_name"}
ABOUT_MODEL = {"files", "from", "license", "messages", "model", "name", "parameters", "quantize", "system", "template"}
ABOUT_MODEL |= {"adapters", "format", "keep_alive", "options", "parser", "renderer", "stream", "think", "tools"}
"""Fields of a request that say what runs it; only the model, the system prompt and the messages are taken."""


def read_messages(content: Mapping[str, Any], name: str) -> Batch:  # Any: JSON
    """A JSON object with messages, and perhaps a model and a system prompt."""
    if unknown := sorted(content.keys() - ABOUT_MODEL):
        raise NotUnderstood(f"{name} has messages, but also the unknown field {shorten(unknown[0])}; known: {KNOWN}")
    batch = Batch()
    said: list[tuple[Role, str]] = []
    if content.get("system"):
        said.append(("system", take(content, "system", str, name)))
    for place, message in enumerate(take(content, "messages", list, name), 1):
        where = f"message {place} of {name}"
        role = take(message, "role", str, where)
        text = take(message, "content", str, where)
        if unknown := sorted(message.keys() - MESSAGE_FIELDS - ABOUT_MESSAGES):
            raise NotUnderstood(f"{where} has the unknown field {shorten(unknown[0])}")
        for field in sorted(ABOUT_MESSAGES & message.keys()):
            batch.left_out[field] += bool(message[field])
        if role == "tool":
            batch.left_out["message of a tool"] += 1
        elif role not in ROLES:
            raise NotUnderstood(f"{where} has the unknown role {shorten(role)}; known are {', '.join(ROLES)}")
        elif text:
            said.append((ROLES[role], text))
    model = next((str(content[key]) for key in ("from", "model", "name") if content.get(key)), "")
    return _with(batch, said, model, name)


def read_modelfile(text: str, name: str) -> Batch:
    """A Modelfile with MESSAGE lines."""
    batch = Batch()
    said: list[tuple[Role, str]] = []
    model = ""
    for line, command, value in _commands(text, name):
        if command == "FROM":
            model = value
        elif command == "SYSTEM":
            said.insert(0, ("system", value))
        elif command == "MESSAGE":
            role, _, rest = value.partition(" ")
            if role not in ROLES:
                raise NotUnderstood(f"line {line} of {name} has the unknown role {shorten(role)}")
            said.append((ROLES[role], _unquoted(rest.strip()) or ""))
        else:
            batch.left_out[command] += 1
    return _with(batch, said, model, name)


def _commands(text: str, name: str) -> list[tuple[int, str, str]]:
    """A Modelfile's commands with their line numbers; quoted values may span lines."""
    found = []
    lines = text.replace("\r\n", "\n").split("\n")
    place = 0
    while place < len(lines):
        start, line = place, lines[place].strip()
        place += 1
        if not line or line.startswith("#"):
            continue
        word, _, value = line.partition(" ")
        command = word.upper()
        if command not in LEFT_OUT | {"FROM", "SYSTEM", "MESSAGE"}:
            raise NotUnderstood(
                f"line {start + 1} of {name} begins with {shorten(word)}, which no Modelfile has; known: {KNOWN}"
            )
        named = re.match(r"\w+ +", value) if command in ("MESSAGE", "PARAMETER") else None
        head = named[0] if named else ""
        while _unquoted(value[len(head) :].strip()) is None:
            if place == len(lines):
                raise NotUnderstood(f"the quotation that begins in line {start + 1} of {name} does not end")
            value += "\n" + lines[place]
            place += 1
        found.append((start + 1, command, value if head else _unquoted(value.strip()) or ""))
    return found


def _unquoted(value: str) -> str | None:
    """A value without its quotation marks; None while they are open."""
    for mark in ('"""', '"'):
        if value.startswith(mark):
            closed = len(value) >= 2 * len(mark) and value.endswith(mark)
            return value[len(mark) : -len(mark)] if closed else None
    return value


def _with(batch: Batch, said: list[tuple[Role, str]], model: str, name: str) -> Batch:
    """Add a conversation, dated now, to the batch."""
    if not any(role != "system" for role, _ in said):
        raise NotUnderstood(f"{name} has no messages; in Ollama, /save keeps those of a session that has some")
    now = time.time()
    messages = [Message(place, 0, place - 1 or None, role, text, now) for place, (role, text) in enumerate(said, 1)]
    conversation = Conversation(0, "", "chat", model, now, now, len(messages), messages[-1].id)
    batch.conversations.append(Imported(conversation, messages))
    batch.left_out = +batch.left_out
    return batch
