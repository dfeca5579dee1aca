"""Export conversations as one HTML page, without scripts, links, images or anything that is loaded."""

import html
from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from chatapp.history import Conversation, Message
from chatapp.history.exports import describe_conversation, describe_message, format_time, split_thinking, strip_calls
from chatapp.text.markdown import RULES_OFF, compile_rules
from chatapp.text.printable import printable

MOST = 200_000
"""Longer messages, in characters, are shown as they were written."""
COLOURED = 20_000, 1_000
"""Most characters of code, and of its longest line, that are coloured."""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --text: #1f2328; --muted: #59636e; --line: #d1d9e0; }}
:root {{ --code: #f6f8fa; --you: #f0f4f9; }}
@media (prefers-color-scheme: dark) {{
:root {{ --text: #e6e6e6; --muted: #9aa4af; --line: #3a424c; --code: #1c2128; --you: #1d2733; }}
body {{ background: #14171b; }}
{dark}
}}
@media (prefers-color-scheme: light) {{
body {{ background: #fff; }}
{light}
}}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
body {{ font: 1rem/1.6 system-ui, sans-serif; color: var(--text); }}
h1 {{ font-size: 1.5rem; line-height: 1.3; margin: 2.5rem 0 0.2rem; }}
h2 {{ font-size: 0.85rem; font-weight: 600; margin: 0 0 0.4rem; color: var(--muted); }}
h2 time {{ font-weight: 400; margin-left: 0.6rem; }}
h3, h4, h5, h6 {{ margin: 1.2rem 0 0.4rem; line-height: 1.3; }}
.about {{ color: var(--muted); margin: 0 0 1.5rem; }}
section {{ margin: 1.4rem 0; overflow-wrap: anywhere; unicode-bidi: isolate; }}
section.user, section.system {{ background: var(--you); border-radius: 8px; padding: 0.7rem 1rem; }}
section > :last-child {{ margin-bottom: 0; }}
p, ul, ol, blockquote, table, pre {{ margin: 0 0 0.8rem; }}
pre, code {{ font: 0.875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
code {{ background: var(--code); border-radius: 4px; padding: 0.1em 0.3em; }}
pre {{ background: var(--code); border-radius: 8px; padding: 0.8rem 1rem; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
pre code {{ background: none; padding: 0; font-size: 1em; }}
pre.plain {{ background: none; padding: 0; font: inherit; }}
blockquote {{ border-left: 3px solid var(--line); padding-left: 0.9rem; color: var(--muted); margin-left: 0; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border: 1px solid var(--line); padding: 0.3rem 0.7rem; }}
details {{ color: var(--muted); border-left: 3px solid var(--line); padding-left: 0.9rem; margin: 0 0 0.8rem; }}
hr {{ border: 0; border-top: 1px solid var(--line); }}
@media print {{ section.user, section.system, pre, code {{ border: 1px solid var(--line); }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def as_html(conversations: Sequence[tuple[Conversation, Sequence[Message]]]) -> str:
    """The shown branches of conversations as one HTML page; it loads nothing and runs nothing."""
    titles = [conversation.title for conversation, _ in conversations]
    body = "\n".join(write_section(conversation, messages) for conversation, messages in conversations)
    light, dark = (HtmlFormatter(style=style).get_token_style_defs("pre") for style in ("default", "github-dark"))
    title = escape(titles[0] if len(titles) == 1 else "Conversations")
    return PAGE.format(title=title, body=body, light="\n".join(light), dark="\n".join(dark))


def write_section(conversation: Conversation, messages: Sequence[Message]) -> str:
    """Write a conversation; a completion's text is not Markdown."""
    if conversation.kind == "completion":
        body = f'<section class="assistant">{write_plain("".join(one.text for one in messages))}</section>'
    else:
        body = "\n".join(
            f'<section class="{one.role}"><h2>{escape(describe_message(one))}{write_time(one)}</h2>\n'
            f"{write_message(one)}</section>"
            for one in messages
        )
    about = escape(describe_conversation(conversation))
    return f'<h1>{escape(conversation.title)}</h1>\n<p class="about">{about}</p>\n{body}'


def write_time(message: Message) -> str:
    """Write the time of a message, where that is known."""
    return f"<time>{format_time(message.created)}</time>" if message.created else ""


def write_message(message: Message) -> str:
    """Write a message after its folded thinking."""
    if message.role == "tool":
        asked = "".join(write_plain(call.arguments) for call in message.calls)
        return f"<details><summary>What it was asked and gave</summary>\n{asked}{write_plain(message.text)}</details>"
    parts = split_thinking(strip_calls(message))
    thinking = render(parts["thinking"]) if "thinking" in parts else ""
    folded = f"<details><summary>Thinking</summary>\n{thinking}</details>\n" if thinking else ""
    return folded + render(parts["text"])


def render(text: str) -> str:
    """Render Markdown as HTML; what would take too long is shown as it was written."""
    return str(shared_parser().render(printable(text))) if len(text) <= MOST else write_plain(text)


def write_plain(text: str) -> str:
    """Write a text as it was written."""
    return f'<pre class="plain">\n{escape(text)}</pre>'


def escape(text: str) -> str:
    """Escape a text for HTML."""
    return html.escape(printable(text))


@cache
def shared_parser() -> MarkdownIt:
    """The parser for all threads: no links, images or HTML, lowered headings, and coloured code."""
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": 100}).disable(RULES_OFF)
    made.core.ruler.push("below", lower_headings)
    made.add_render_rule("fence", write_code)
    made.add_render_rule("code_block", write_code)
    return compile_rules(made)


def lower_headings(state: StateCore) -> None:
    """Put headings below the page's own, and make decoded entities printable."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        for part in token.children or ():
            part.content = printable(part.content)


def write_code(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:  # Any: the renderer, not used
    """Write a block of code, coloured where its language is named."""
    content, language = tokens[place].content, tokens[place].info.strip().partition(" ")[0]
    longest = max(map(len, content.split("\n")))
    coloured = highlight_code(content, language) if len(content) <= COLOURED[0] and longest <= COLOURED[1] else None
    return f"<pre><code>{html.escape(content) if coloured is None else coloured}</code></pre>\n"


def highlight_code(content: str, language: str) -> str | None:
    """Highlight code with spans; None if its language is unknown."""
    if not language:
        return None
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return str(highlight(content, lexer, HtmlFormatter(nowrap=True)))
