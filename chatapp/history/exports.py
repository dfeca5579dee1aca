"""Conversations as JSON, Markdown and HTML; whatever a model wrote stays mere text in them."""

import html
import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from chatapp.generation import Token
from chatapp.history.records import Conversation, Message
from chatapp.history.tokens import as_lists
from chatapp.terminal import printable

FORMAT = "chatapp-conversations"
VERSION = 1
FENCE = re.compile(r"(?:`{3,}[^`]*|~{3,}.*)$")
"""A line that begins a block of code."""
STRAY_FENCE = re.compile(r"^[\s>*+\-0-9.)]+(?:```|~~~)", re.MULTILINE)
"""A fence that may belong to a list or a quotation."""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.4rem; }}
h2 {{ font-size: 0.9rem; margin: 1.5rem 0 0.3rem; }}
p {{ color: GrayText; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; margin: 0; font-size: 0.95rem; }}
.user pre {{ border-left: 3px solid; padding-left: 0.8rem; }}
:root {{ color-scheme: light dark; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


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
                "text": message.text,
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


def _some(**facts: object) -> dict[str, object]:
    """Those of the facts that there are: older versions of chatapp had none of these."""
    return {name: fact for name, fact in facts.items() if fact}


def as_markdown(conversation: Conversation, messages: Sequence[Message]) -> str:
    """The branch that is shown, to be read; HTML, links and images in it do nothing."""
    blocks = [f"# {_line(conversation.title)}", f"*{_line(_about(conversation))}*"]
    if conversation.kind == "completion":
        blocks.append(_fenced("".join(message.text for message in messages)))
    else:
        for message in messages:
            blocks += [f"## {_line(heading(message))}", harmless(message.text.strip("\n"))]
    return "\n\n".join(blocks) + "\n"


def harmless(text: str) -> str:
    """Markdown in which only blocks of code are as they were: no HTML, no link, no image."""
    text = printable(text)
    trusted = not STRAY_FENCE.search(text)  # what a viewer takes for code must be what we take for code
    lines, fence = [], ""
    for line in text.split("\n"):
        if fence:
            lines.append(line)
            if re.fullmatch(rf"{fence[0]}{{{len(fence)},}}[ \t]*", line):
                fence = ""
        elif trusted and FENCE.match(line):
            lines.append(_inert(line))
            fence = re.match(r"`+|~+", line)[0]  # type: ignore[index]  # it begins with three of them at least
        else:
            lines.append(_inert(line))
    return "\n".join([*lines, fence] if fence else lines)


def _inert(line: str) -> str:
    """Markdown with its HTML, links and images undone."""
    return re.sub(r"\](?=[(:\[])", r"]\\", re.sub(r"<(?=[A-Za-z/!?])", "&lt;", line))


def _line(text: str) -> str:
    """One harmless line of Markdown."""
    return _inert(" ".join(printable(text).split()))


def _fenced(text: str) -> str:
    """A text as a block of code that nothing in it can end."""
    text = printable(text)
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}text\n{text}\n{fence}"


def as_html(conversations: Sequence[tuple[Conversation, Sequence[Message]]]) -> str:
    """The branches that are shown, as one page that loads nothing and runs nothing."""
    titles = [conversation.title for conversation, _ in conversations]
    body = "\n".join(_section(conversation, messages) for conversation, messages in conversations)
    return PAGE.format(title=_escaped(titles[0] if len(titles) == 1 else "Conversations"), body=body)


def _section(conversation: Conversation, messages: Sequence[Message]) -> str:
    said = "\n".join(
        f'<section class="{message.role}"><h2>{_escaped(heading(message))}</h2>\n<pre>\n{_escaped(message.text)}</pre>'
        "</section>"
        for message in messages
    )
    return f"<h1>{_escaped(conversation.title)}</h1>\n<p>{_escaped(_about(conversation))}</p>\n{said}"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


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
    return f"{name}{model}{version}{end}"


def _about(conversation: Conversation) -> str:
    when = datetime.fromtimestamp(conversation.created).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{conversation.model}, {when}" if conversation.model else when
