"""Export conversations as JSON and Markdown; what a model wrote stays mere text in them."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from chatapp.generation import Token
from chatapp.generation.text import tools
from chatapp.generation.text.thinking import Parts, split
from chatapp.history import Conversation, Message
from chatapp.history.inert import disarm, disarm_line
from chatapp.history.rows import as_lists, calls_as_lists
from chatapp.text.printable import printable

FORMAT = "chatapp-conversations"
VERSION = 1
ABOUT_CONVERSATION = ("title", "kind", "model", "created", "updated", "leaf")
ABOUT_MESSAGE = (
    *("id", "parent", "role", "text", "created", "finished", "finish_reason", "model", "options", "usage"),
)
"""The fields that every export has."""


def as_json(
    conversations: Iterable[tuple[Conversation, Sequence[Message]]],
    tokens: Callable[[int], Sequence[Token]] = lambda message: (),
) -> str:
    """Conversations as JSON with all branches, for `imported` to read; `tokens` returns a message's tokens."""
    facts = [_facts(conversation, messages, tokens) for conversation, messages in conversations]
    return json.dumps({"format": FORMAT, "version": VERSION, "conversations": facts}, indent=2, allow_nan=False) + "\n"


def _facts(
    conversation: Conversation, messages: Sequence[Message], tokens: Callable[[int], Sequence[Token]]
) -> dict[str, Any]:  # Any: JSON
    def tell(message: Message) -> dict[str, Any]:
        told = {name: getattr(message, name) for name in ABOUT_MESSAGE} | split_thinking(message)
        calls = calls_as_lists(message.calls)
        return told | _some(summary=message.summary, tokens=as_lists(tokens(message.id)), calls=calls)

    told = {name: getattr(conversation, name) for name in ABOUT_CONVERSATION} | _some(setup=conversation.setup)
    return told | {"messages": [tell(message) for message in messages]}


def split_thinking(message: Message) -> dict[str, str]:
    """Split a message into thinking and answer."""
    parts = split(message.text) if message.role == "assistant" else Parts("", message.text)
    return {"text": parts.answer} | ({"thinking": parts.thinking} if parts.thinking else {})


def write_message(message: Message) -> str:
    """A message's text as Markdown, after its quoted thinking; for a tool's, the call and the result."""
    if message.role == "tool":
        return "\n\n".join(_fenced(part) for part in (*(call.arguments for call in message.calls), message.text))
    parts = split_thinking(strip_calls(message))
    if "thinking" not in parts:
        return parts["text"]
    quoted = "\n".join(f"> {line}".rstrip() for line in ["*Thinking*", "", *parts["thinking"].split("\n")])
    return f"{quoted}\n\n{parts['text']}"


def strip_calls(message: Message) -> Message:
    """Remove the calls that a message's text spells."""
    if message.role == "tool" or not message.calls:
        return message
    return replace(message, text=tools.strip_calls(message.text, [call.name for call in message.calls]))


def _some(**facts: object) -> dict[str, object]:
    """The non-empty facts; older versions of chatapp had none of these."""
    return {name: fact for name, fact in facts.items() if fact}


def as_markdown(conversation: Conversation, messages: Sequence[Message]) -> str:
    """The shown branch of a conversation as Markdown; HTML, links and images in it do nothing."""
    blocks = [f"# {_line(conversation.title)}", f"*{_line(describe_conversation(conversation))}*"]
    if conversation.kind == "completion":
        blocks.append(_fenced("".join(message.text for message in messages)))
    else:
        for message in messages:
            blocks += [f"## {_line(describe_message(message))}", disarm(write_message(message).strip("\n"))]
    return "\n\n".join(blocks) + "\n"


def _line(text: str) -> str:
    """One harmless line of Markdown."""
    return disarm_line(" ".join(printable(text).split()))


def _fenced(text: str) -> str:
    """A text as a block of code that nothing in it can end."""
    text = printable(text)
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}text\n{text}\n{fence}"


def describe_message(message: Message) -> str:
    """A message's heading: who said it, and how it ended, if unusually."""
    name = {"user": "You", "assistant": "Model", "system": "System prompt", "tool": "Tool"}[message.role]
    if message.role == "tool":
        outcome = str(message.usage.get("outcome", ""))
        return ", ".join([f"{name} {message.calls[0].name if message.calls else ''}".strip(), *filter(None, [outcome])])
    model = f" ({message.model})" if message.model else ""
    end = "" if message.finished else ", unfinished"
    if message.finish_reason in ("length", "cancelled"):
        end = f", {message.finish_reason}"
    version = ""
    if len(message.versions) > 1:
        version = f", version {message.versions.index(message.id) + 1} of {len(message.versions)}"
    return f"{name}{model}{version}{end}{', damaged' if message.damaged else ''}"


def describe_conversation(conversation: Conversation) -> str:
    """A conversation's model, and when it began."""
    when = format_time(conversation.created)
    return f"{conversation.model}, {when}" if conversation.model else when


def format_time(seconds: float) -> str:
    """Format a time on this machine's calendar."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
