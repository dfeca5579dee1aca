"""Read conversations from files: our own JSON, exports of ChatGPT, Claude and Open WebUI, and Ollama's `/save`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from chatapp.generation import Token
from chatapp.generation.text.thinking import THINK
from chatapp.history import Conversation, Kind, Message, NotUnderstood, Role
from chatapp.history.exports import FORMAT, VERSION
from chatapp.history.rows import calls_of_lists, of_lists

KNOWN = "our own export, ChatGPT's, Claude's and Open WebUI's, and Ollama's messages or Modelfile"


@dataclass
class Imported:
    """A conversation to add, with provisional numbers; each message follows its parent."""

    conversation: Conversation
    messages: Sequence[Message]
    tokens: Mapping[int, Sequence[Token]] = field(default_factory=dict)
    """Tokens of some messages, by message number."""


@dataclass
class Batch:
    """The conversations of a file."""

    conversations: list[Imported] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """The number of parts that are no text between user and model, by their names in the file."""
    refused: list[str] = field(default_factory=list)
    """Conversations that are not understood, with reasons."""


def read(text: str, name: str) -> Batch:
    """Read the conversations in a file's text; `name` is the file's, for messages."""
    from chatapp.history.imported import chatgpt, claude, ollama, open_webui

    if not text.lstrip().startswith(("{", "[")):
        return ollama.read_modelfile(text, name)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"{name} is not valid JSON ({error}); it may be cut off: export it again") from error
    if isinstance(content, dict) and "format" in content:
        return _ours(content, name)
    if isinstance(content, dict) and "mapping" in content:
        return chatgpt.read([content], name)
    if isinstance(content, dict) and "chat_messages" in content:
        return claude.read([content], name)
    if isinstance(content, dict) and "chat" in content:
        return open_webui.read([content], name)
    if isinstance(content, dict) and "messages" in content:
        return ollama.read_messages(content, name)
    if isinstance(content, list) and content and all(isinstance(one, dict) for one in content):
        if "mapping" in content[0]:
            return chatgpt.read(content, name)
        if "chat_messages" in content[0]:
            return claude.read(content, name)
        if "chat" in content[0]:
            return open_webui.read(content, name)
        if "role" in content[0]:
            return ollama.read_messages({"messages": content}, name)
    raise NotUnderstood(f"{name} is JSON, but no conversations that are known here; these are: {KNOWN}")


def take(facts: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:  # Any: JSON, checked here
    """A required field of a JSON object, of this type."""
    if not isinstance(facts, dict):
        raise NotUnderstood(f"{where} is not a JSON object")
    if key not in facts:
        raise NotUnderstood(f"{where} has no {key!r}")
    value = facts[key]
    wrong = isinstance(value, bool) and kind not in (bool, object)  # to Python, True is a number
    if wrong or not isinstance(value, kind):
        raise NotUnderstood(f"{where} has {key!r}: {shorten(value)}, which cannot be")
    return value


def shorten(value: object) -> str:
    """A value, shortened for a message."""
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _ours(content: Mapping[str, Any], name: str) -> Batch:
    """Read our own export, whole or not at all."""
    if content["format"] != FORMAT:
        raise NotUnderstood(f"{name} has the format {shorten(content['format'])}, not {FORMAT!r}")
    version = take(content, "version", int, name)
    if version != VERSION:
        raise NotUnderstood(f"{name} was written by another chatapp (version {version}, not {VERSION}); update chatapp")
    batch = Batch()
    for place, facts in enumerate(take(content, "conversations", list, name), 1):
        batch.conversations.append(_conversation(facts, f"conversation {place} of {name}"))
    return batch


def _conversation(facts: Any, where: str) -> Imported:
    messages: list[Message] = []
    ids: set[int] = set()
    tokens: dict[int, Sequence[Token]] = {}
    for place, one in enumerate(take(facts, "messages", list, where), 1):
        message = _message(one, f"message {place} of {where}")
        if message.id in ids or not (message.parent is None or message.parent in ids):
            raise NotUnderstood(f"message {place} of {where} has a number twice, or a parent that is not before it")
        ids.add(message.id)
        messages.append(message)
        if "tokens" in one:
            tokens[message.id] = of_lists(one["tokens"], f"message {place} of {where}")
    leaf = take(facts, "leaf", (int, type(None)), where)
    if not (leaf is None or leaf in ids):
        raise NotUnderstood(f"{where} ends with message {leaf}, which it does not have")
    conversation = Conversation(
        0,
        take(facts, "title", str, where),
        _chosen(facts, "kind", get_args(Kind), where),
        take(facts, "model", str, where),
        _time(facts, "created", where),
        _time(facts, "updated", where),
        len(messages),
        leaf,
        setup=_setup(facts, where) if "setup" in facts else {},
    )
    return Imported(conversation, messages, tokens)


def _setup(facts: Any, where: str) -> dict[str, Any]:
    """A conversation's setup, without tools: an import must not start programs."""
    return {name: fact for name, fact in _json(facts, "setup", where).items() if name != "tools"}


def _message(facts: Any, where: str) -> Message:
    return Message(
        take(facts, "id", int, where),
        0,
        take(facts, "parent", (int, type(None)), where),
        _chosen(facts, "role", get_args(Role), where),
        with_thinking(
            take(facts, "text", str, where), take(facts, "thinking", str, where) if "thinking" in facts else ""
        ),
        _time(facts, "created", where),
        take(facts, "finished", bool, where),
        take(facts, "finish_reason", (str, type(None)), where),
        take(facts, "model", str, where),
        _json(facts, "options", where),
        _json(facts, "usage", where),
        summary=take(facts, "summary", str, where) if "summary" in facts else "",
        calls=calls_of_lists(facts["calls"], where) if "calls" in facts else (),
    )


def with_thinking(text: str, thinking: str) -> str:
    """A message's text with its thinking in the usual marks."""
    begin, end = THINK
    return begin + thinking + (end + text if text else "") if thinking else text


def _json(facts: Any, key: str, where: str) -> dict[str, Any]:
    """An object with any fields, in valid JSON."""
    value: dict[str, Any] = take(facts, key, dict, where)
    if not value:
        return {}
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"{where} has {key!r} that no JSON can hold ({error})") from error
    return value


def _time(facts: Any, key: str, where: str) -> float:
    """Seconds since 1970, within the years of calendars."""
    value = take(facts, key, (int, float), where)
    if not 0 <= value < 4e9:
        raise NotUnderstood(f"{where} has {key!r}: {value}, which is not a time")
    return float(value)


def _chosen(facts: Any, key: str, known: Sequence[str], where: str) -> Any:
    value = take(facts, key, str, where)
    if value not in known:
        raise NotUnderstood(f"{where} has {key!r}: {shorten(value)}; known are {', '.join(known)}")
    return value
