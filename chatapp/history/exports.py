"""Conversations as JSON and Markdown; whatever a model wrote stays mere text in them."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from chatapp.generation import Token
from chatapp.generation.text.thinking import Parts, split
from chatapp.history.inert import harmless, inert
from chatapp.history.records import Conversation, Message
from chatapp.history.tokens import as_lists
from chatapp.text.printable import printable

FORMAT = "chatapp-conversations"
VERSION = 1


def as_json(
    conversations: Iterable[tuple[Conversation, Sequence[Message]]],
    tokens: Callable[[int], Sequence[Token]] = lambda message: (),
) -> str:
    """Everything, all branches included, as `imports.read` understands it; `tokens` gives those of a message."""
    facts = [_facts(conversation, messages, tokens) for conversation, messages in conversations]
    return json.dumps({"format": FORMAT, "version": VERSION, "conversations": facts}, indent=2, allow_nan=False) + "\n"


def _facts(
    conversation: Conversation, messages: Sequence[Message], tokens: Callable[[int], Sequence[Token]]
) -> dict[str, Any]:  # Any: JSON
    return {
        "title": conversation.title,
        "kind": conversation.kind,
        "model": conversation.model,
        "created": conversation.created,
        "updated": conversation.updated,
        "leaf": conversation.leaf,
        **_some(setup=dict(conversation.setup)),
        "messages": [
            {
                "id": message.id,
                "parent": message.parent,
                "role": message.role,
                **said(message),
                "created": message.created,
                "finished": message.finished,
                "finish_reason": message.finish_reason,
                "model": message.model,
                "options": dict(message.options),
                "usage": dict(message.usage),
                **_some(summary=message.summary, tokens=as_lists(tokens(message.id))),
            }
            for message in messages
        ],
    }


def said(message: Message) -> dict[str, str]:
    """What a message says, and apart from it what the model thought."""
    parts = split(message.text) if message.role == "assistant" else Parts("", message.text)
    return {"text": parts.answer} | ({"thinking": parts.thinking} if parts.thinking else {})


def spoken(message: Message) -> str:
    """What a message says, below a quotation of what the model thought."""
    parts = said(message)
    if "thinking" not in parts:
        return message.text
    quoted = "\n".join(f"> {line}".rstrip() for line in ["*Thinking*", "", *parts["thinking"].split("\n")])
    return f"{quoted}\n\n{parts['text']}"


def _some(**facts: object) -> dict[str, object]:
    """Those of the facts that there are: older versions of chatapp had none of these."""
    return {name: fact for name, fact in facts.items() if fact}


def as_markdown(conversation: Conversation, messages: Sequence[Message]) -> str:
    """The branch that is shown, to be read; HTML, links and images in it do nothing."""
    blocks = [f"# {_line(conversation.title)}", f"*{_line(about(conversation))}*"]
    if conversation.kind == "completion":
        blocks.append(_fenced("".join(message.text for message in messages)))
    else:
        for message in messages:
            blocks += [f"## {_line(heading(message))}", harmless(spoken(message).strip("\n"))]
    return "\n\n".join(blocks) + "\n"


def _line(text: str) -> str:
    """One harmless line of Markdown."""
    return inert(" ".join(printable(text).split()))


def _fenced(text: str) -> str:
    """A text as a block of code that nothing in it can end."""
    text = printable(text)
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}text\n{text}\n{fence}"


def heading(message: Message) -> str:
    """Who said it, and how it ended where that is not the usual way."""
    name = {"user": "You", "assistant": "Model", "system": "System prompt"}[message.role]
    model = f" ({message.model})" if message.model else ""
    end = "" if message.finished else ", unfinished"
    if message.finish_reason in ("length", "cancelled"):
        end = f", {message.finish_reason}"
    version = ""
    if len(message.versions) > 1:
        version = f", version {message.versions.index(message.id) + 1} of {len(message.versions)}"
    return f"{name}{model}{version}{end}{', damaged' if message.damaged else ''}"


def about(conversation: Conversation) -> str:
    """The model of a conversation, and when it began."""
    when = when_said(conversation.created)
    return f"{conversation.model}, {when}" if conversation.model else when


def when_said(seconds: float) -> str:
    """A time on this machine's calendar."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
