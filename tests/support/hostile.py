"""Texts with which a model, or whoever taught it, could try to drive a terminal or to stall a screen."""

from __future__ import annotations

import re
from pathlib import Path

from rich.cells import cell_len
from textual.app import App

from chatapp.history import History

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ud800-\udfff\ufff9-\ufffb]"
    "|[\U000e0000-\U000e007f]|[\u2028\u2029]"
)
"""What no terminal may be sent as a part of a text."""
OURS = re.compile(r"screen\.(apply|name|delete|use|keep|focus_next)\b|app\.simulate_key\('escape'\)$")
"""What a click on words of chatapp's own may do."""
ESCAPES = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear screen": "\x1b[2J\x1b[3J\x1b[H",
    "alternate screen": "\x1b[?1049h\x1b[?1049l",
    "report position": "\x1b[6n\x1b[c\x1b[>c",
    "mouse and paste modes": "\x1b[?1003h\x1b[?2004l",
    "window title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;https://example.invalid\x1b\\text\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x1b\\",
    "notification": "\x1b]9;owned\x07\x1b]777;notify;a;b\x07",
    "device control string": '\x1bP$q"p\x1b\\\x1bP+q544e\x1b\\',
    "application program command": "\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
    "privacy message": "\x1b^owned\x1b\\\x1bXowned\x1b\\",
    "reset": "\x1bc\x1b[!p",
    "C1": "\x9b31m \x9d0;owned\x9c \x90q\x9c \x9e \x9f \x85 \x84",
    "bells and shifts": "\x07\x08\x0b\x0c\x0e\x0f\x7f\x00",
    "overwritten line": "rm -rf /\rls       ",
    "unfinished": "text \x1b[",
}
INVISIBLE = {
    "right-to-left override": "abc\u202efdp.exe\u202c",
    "isolates and marks": "\u2066a\u2067b\u2068c\u2069\u200e\u200f\u061c",
    "tags": "hi\U000e0001\U000e0041\U000e0042",
    "zero-width flood": "a" + "\u200b" * 50_000 + "b",
    "combining flood": "Z" + "\u0351\u0321" * 50_000 + "algo",
    "joined flood": "👩" + "\u200d👩" * 20_000,
    "line separators": "a\u2028b\u2029c",
    "lone surrogates": "\ud800 \udfff \ud83d",
    "broken UTF-8": b"caf\xe9 \xff\xfe \xf0\x9f\x99 \xed\xa0\x80 \xc0\xaf".decode(errors="replace"),
    "control pictures by entity": "&#x1b;[31m &#155; &#x202e;evil&#x2066; &#0; &NewLine; &#x200b;",
}
LINKS = {
    "link": "[click](https://example.invalid/a) and [b](<https://example.invalid> 'title')",
    "script link": "[x](javascript:alert(1)) [y](data:text/html,<script>) [z](file:///etc/passwd) [v](vbscript:x)",
    "reference": "[text][1] and [1]\n\n[1]: https://example.invalid 'title'\n",
    "image": "![alt](https://example.invalid/track.png) [![a](b.png)](https://example.invalid)",
    "autolink": "<https://example.invalid> <mailto:me@example.invalid> www.example.invalid me@example.invalid",
    "html": "<a href='https://example.invalid'>a</a> <script>alert(1)</script>\n\n<div>\n<img src=x>\n</div>\n",
    "comment": "<!-- hidden -->\n\nshown <!-- hidden again -->\n",
    "rich markup": "[red]red[/red] [bold]x[/] [link=https://example.invalid]l[/link] [/nothing]",
    "action markup": "[@click=app.quit]quit[/] [@click=screen.stop('x')]stop[/]",
    "link in a table": "| [a](https://example.invalid) | <b>b</b> |\n|---|---|\n| ![c](d) | [e][f] |\n\n[f]: http://x\n",
    "link in a heading and a list": "# [h](https://example.invalid)\n\n- [l](https://example.invalid)\n> [q](http://x)\n",
    "fence information": "```python [@click=app.quit] \x1b]0;x\x07 &#x202e;\nx = 1\n```\n",
}
LARGE = {
    "1 MB without a line end": "x" * 1_000_000,
    "1 MB of words": "words and " * 100_000,
    "1 MB line of code": "```python\n" + "x=1;" * 250_000 + "\n```\n",
    "30,000 lines": "line\n" * 30_000,
    "30,000 paragraphs": "line\n\n" * 30_000,
    "30,000 items": "- item\n" * 30_000,
    "30,000 lines of code": "```python\n" + "x = 1\n" * 30_000 + "```\n",
    "huge table": "|" + "a|" * 50 + "\n|" + "-|" * 50 + "\n" + ("|" + "b|" * 50 + "\n") * 2_000,
    "wide table": "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "|" + "b|" * 5_000 + "\n",
    "nested quotes": ">" * 10_000 + " deep",
    "nested quotes, spaced": "> " * 10_000 + "deep",
    "nested lists": "- " * 10_000 + "deep",
    "nested numbers": "1. " * 10_000 + "deep",
    "nested lists by indentation": "".join("  " * depth + "- deep\n" for depth in range(600)),
    "quotes and lists": "> - " * 5_000 + "deep\n",
    "fence that never closes": "````\n" + "```\ncode\n" * 3_000,
    "fences": "```\n```\n" * 20_000,
    "our own fence": "line\n" * 2_000 + ("~" * 60 + "\n# heading\n") * 50,
    "headings": "# heading\n" * 5_000,
    "emphasis": "*a **a " * 20_000,
    "emphasis, closed": "*a " * 10_000 + "a*" * 10_000,
    "underscores": "__a_" * 30_000,
    "strikes": "~~a~" * 30_000,
    "brackets": "[" * 50_000,
    "brackets and parentheses": "[a](" * 20_000,
    "images": "![" * 50_000,
    "backticks": "".join("`" * (count % 300) + " " for count in range(1_000)),
    "backslashes": "\\" * 100_000,
    "entities": "&" * 100_000 + "&#" * 50_000,
    "angles": "<" * 100_000 + "<!--" * 10_000,
    "reference floods": "[a]: b\n" * 10_000 + "[a]" * 10_000,
    "setext": "a\n" * 20_000 + "===\n",
    "tabs": "\t" * 50_000 + "x",
    "spaces": " " * 100_000 + "x\n",
}
SMALL = ESCAPES | INVISIBLE | LINKS
ALL = SMALL | LARGE

NAME = "evil\x1b]0;owned\x07\x9b2J\u202e[@click=app.quit]x[/]" + re.sub(r"\s", "", "".join(ESCAPES.values()))
"""One line, as somebody may call a model, a conversation or a file."""
ANSWERS = {
    "escapes": "\n\n".join(ESCAPES.values()),
    "invisible": "\n\n".join(text[:600] for text in INVISIBLE.values()),
    "links": "\n\n".join(LINKS.values()),
}
"""The small ones, as few messages."""


def check(app: App[None]) -> str:
    """Fail where something on the screen is more than text and colour, or wider than the screen; give the text."""
    strips = app.screen._compositor.render_strips()
    for strip in strips:
        for text, style, control in strip:
            assert not control
            assert not UNSAFE.search(text), repr(text)
            if style:
                assert style.link is None, style.link
                assert OURS.search(str(style.meta.get("@click", "screen.use"))), style.meta
        assert cell_len(strip.text) <= app.size.width, repr(strip.text)
    text = "\n".join(strip.text for strip in strips)
    assert text.encode()
    return text


def keep(path: Path, *said: str) -> None:
    """A conversation in which everything that can have a name or a text is hostile, with these messages."""
    setup = {"model": NAME, "system": NAME, "options": {"stop": [NAME]}}
    with History(path) as history:
        one, parent = history.create("chat", model=NAME, title=NAME, setup=setup), None
        for place, text in enumerate(said):
            parent = history.add(one.id, "assistant" if place % 2 else "user", text, parent=parent).id
        history.keep_draft(one.id, f"draft {NAME}")
