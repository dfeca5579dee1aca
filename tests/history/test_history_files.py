"""Conversations as files of our own: what is exported is harmless, and what is imported is understood or refused."""

import os
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from backends.errors import UserError
from chatapp.commands.parameters import read_parameter
from chatapp.conversation import files
from chatapp.generation import Alternative, Token
from chatapp.history import Conversation, History, Message, NotUnderstood
from chatapp.history.exports import as_json, as_markdown
from chatapp.history.imported import read
from chatapp.history.inert import disarm
from chatapp.history.pages import as_html, render
from support.conversations import bring_in, said

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></section><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![pixel](http://example.com/p.png)",
    "[a]: javascript:alert(1)\n\n[a]",
    "<http://example.com> <!-- --> <?php ?>",
    "\x1b]8;;http://example.com\x07link\x1b]8;;\x07 \x00 \N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "`````\n</pre><b>\n",
    "{title} {} %s {{x}}",
]


def kept(history: History, *said: str) -> int:
    """A conversation of these messages, the user's first."""
    conversation = history.create(model="tiny <b>").id
    parent: int | None = None
    for place, text in enumerate(said):
        if place % 2:
            reply = Message(0, conversation, parent, "assistant", text, 1.0, True, "length", "tiny", {"seed": 1})
            parent = history.put(replace(reply, usage={"p50": 0.1})).id
        else:
            parent = history.add(conversation, "user", text, parent=parent).id
    return conversation


# Export


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_nothing_in_a_page_runs_loads_or_links(history: History) -> None:
    plain, hostile = kept(history, "a", "b"), kept(history, *HOSTILE)
    history.rename(hostile, "</title><script>")
    pages = [Page(as_html([(history.get(one), history.messages(one))])) for one in (plain, hostile)]
    assert set(pages[1].tags) - set(pages[0].tags) == {"pre", "code"}
    assert not set(pages[1].tags) & {"script", "img", "a", "link", "iframe", "b"}
    assert pages[1].attributes == {"lang", "charset", "http-equiv", "content", "name", "class"}
    texts = [text.strip("\n") for text in pages[1].texts]
    assert HOSTILE[0] in texts and "</title><script>" in texts and HOSTILE[2] in texts
    text = as_html([(history.get(hostile), history.messages(hostile))])
    assert "default-src 'none'" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("plain **bold** `code` 1 < 2", "plain **bold** `code` 1 < 2"),
        ("<b>x</b>", "&lt;b>x&lt;/b>"),
        ("[a](javascript:x) ![b](http://c)", "[a]\\(javascript:x) ![b]\\(`http://c`)"),
        ("[a]: http://b", "[a]\\: `http://b`"),
        ("[a][b]", "[a]\\[b]"),
        ("```html\n<b>[a](b)\n```\n<b>", "```html\n<b>[a](b)\n```\n&lt;b>"),
        ("````\n```\n<b>\n````\n<i>", "````\n```\n<b>\n````\n&lt;i>"),
        ("~~~\n```\n<b>\n~~~", "~~~\n```\n<b>\n~~~"),
        ("```\n<b>", "```\n<b>\n```"),
        ("``` a`b\n<b>", "\\`\\`\\` a\\`b\n&lt;b>"),
        ("  ```\n<b>\n```", "  \\`\\`\\`\n&lt;b>\n\\`\\`\\`"),
        ("> ```\n```\n<b>\n```", "> ```\n```\n<b>\n```"),
        ("1. a\n\n   ```\n   <b> www.x.de\n   ```\n   <b>", "1. a\n\n   ```\n   <b> www.x.de\n   ```\n   &lt;b>"),
        ("```\n   ```\n<b>", "```\n   ```\n&lt;b>"),
        ("\x1b[2J", "␛[2J"),
    ],
)
def test_in_markdown_only_blocks_of_code_stay_as_they_were(text: str, becomes: str) -> None:
    assert disarm(text) == becomes


ADDRESSES = [
    "see https://evil.example, www.evil.example and a@b.cd.",
    "(evil.com) *evil.com* **https://x.y/a_b**",
    "mailto:a@b.cd",
    "`code`https://x.y`code`",
    "a `x https://evil.com",
    "don`t https://x.y `q`",
    "| a `x | https://evil.com` |\n|--|--|",
    "| a | b |\n|--|--|\n| `q | https://evil.com` |",
    "\\https://evil.com \\\\https://evil.com",
    "https&#58;//x.y a&commat;b.cd",
    "https\\://x.y a\\@b.cd evil\\.com",
    "[a]:http://b\n\n[a]",
    "``*&#64;http://e.com/a_b)\\```",
    "//evil.com file.py",
    "~~https://evil.com~~",
    "1. a\n2. ```https://evil.com```",
    "```https://evil.com```",
    "x\n    ```\n    https://evil.com",
    "# https://evil.com",
    "- a@b.cd\n- [x] ftp://a.b",
    "<https://evil.com> <a@b.cd>",
    "HTTP://EVIL.COM WWW.EVIL.COM",
]


def viewers() -> dict[str, Callable[[str], str]]:
    """Viewers of Markdown that make links of addresses; cmark-gfm and mistune where they are installed."""
    found: dict[str, Callable[[str], str]] = {
        "markdown-it": MarkdownIt("gfm-like").render,
        "markdown-it with HTML": MarkdownIt("commonmark", {"linkify": True, "html": True}).enable("linkify").render,
    }
    if find_spec("cmarkgfm"):
        found["cmark-gfm"] = import_module("cmarkgfm").github_flavored_markdown_to_html
    if find_spec("mistune"):
        found["mistune"] = import_module("mistune").create_markdown(plugins=["url", "table", "strikethrough"])
    return found


VIEWERS = viewers()


@pytest.mark.parametrize("viewer", VIEWERS)
def test_no_viewer_makes_a_link_of_an_address_in_markdown(viewer: str) -> None:
    chance = random.Random(5)
    pieces = [*" ".join(ADDRESSES).split(" "), *"`|*_~()[]<>\n.:/@\\", "```", "\n\n", "- ", "> ", "&#64;", "&period;"]
    mixed = ["".join(chance.choice(pieces) for _ in range(chance.randint(2, 12))) for _ in range(400)]
    for text in [*ADDRESSES, *mixed]:
        page = Page(VIEWERS[viewer](disarm(text)))
        assert not {"a", "img", "script"} & set(page.tags), text


@pytest.mark.parametrize("text", ADDRESSES[:4])
def test_an_address_in_markdown_reads_as_it_did(text: str) -> None:
    shown = "".join(Page(VIEWERS["markdown-it"](disarm(text))).texts)
    assert shown.strip() == re.sub(r"[*`]", "", text)


RENDERED = """\
# Title

Some **bold** and *slanted* `code`, [a](http://b) ![c](d) <b>

1. one
2. two

> said

| a | b |
|---|--:|
| 1 | 2 |

```python
def f(): return "<x>"
```

```nolanguage
<y>
```
"""


def test_a_page_is_rendered_with_headings_lists_tables_and_coloured_code(history: History) -> None:
    one = kept(history, RENDERED, "fine")
    text = as_html([(history.get(one), history.messages(one))])
    page = Page(text)
    assert {"h3", "ol", "li", "blockquote", "table", "strong", "em", "code", "pre", "span", "time"} <= set(page.tags)
    assert not {"a", "img", "b", "script", "link"} & set(page.tags)
    assert '<span class="k">def</span>' in text and "&lt;y&gt;" in text and "prefers-color-scheme: dark" in text
    assert "[a](http://b) ![c](d) <b>" in "".join(page.texts) and "http" not in re.sub("http(://b|-equiv)", "", text)
    assert "Model (tiny), length" in "".join(page.texts)


@pytest.mark.parametrize(
    "text", ["*a_ " * 40_000, "`" * 150_000, "> " * 90_000, "- " * 90_000, "| a " * 50_000, "[" * 200_000]
)
def test_a_page_of_whatever_a_model_wrote_is_made_soon(text: str, history: History) -> None:
    start = time.process_time()
    assert render(text) and disarm(text[:20_000])
    assert time.process_time() - start < 5


def test_a_conversation_reads_well_in_markdown(history: History) -> None:
    text = kept(history, "Hi", "```python\nprint(1)\n```")
    first = history.messages(text)[0].id
    history.put(Message(0, text, first, "assistant", "Hm", 1.0, finished=False, model="tiny"))
    markdown = as_markdown(history.get(text), history.messages(text))
    assert re.fullmatch(
        r"# Hi\n\n\*tiny &lt;b>, \d{4}-\d\d-\d\d \d\d:\d\d\*\n\n## You\n\nHi\n\n"
        r"## Model \(tiny\), version 2 of 2, unfinished\n\nHm\n",
        markdown,
    )
    completion = history.create("completion").id
    history.add(completion, "user", "```\n<b>\n````", parent=None)
    assert as_markdown(history.get(completion), history.messages(completion)).endswith(
        "\n\n`````text\n```\n<b>\n````\n`````\n"
    )


def test_titles_and_names_cannot_leave_their_line(history: History) -> None:
    facts = changed("conversations.0.title", "a title\n```\n<b>")
    facts["conversations"][0]["model"] = "a model\n```"
    facts["conversations"][0]["messages"][0]["model"] = "another\n```"
    bring_in(history, facts)
    conversation = history.list()[0]
    assert (conversation.title, conversation.model) == ("a title ``` <b>", "a model ```")
    strange = replace(conversation, title="x\n```\n<b>", model="m\n```")
    markdown = as_markdown(strange, [replace(history.messages(1)[0], model="m\n```")])
    assert markdown.startswith("# x \\`\\`\\` &lt;b>\n\n*m \\`\\`\\`, ")
    assert "\n## You (m \\`\\`\\`)\n" in markdown


@pytest.mark.skipif(os.name == "nt", reason="Windows guesses the home folders of others")
def test_a_path_in_a_home_folder_that_is_not_there_is_refused(history: History) -> None:
    number, file = kept(history, "Why?"), "~nobody-of-this-machine/why.json"
    for act in (
        lambda: files.export(history, number, "json", file),
        lambda: files.import_file(history, file),
        lambda: read_parameter("grammar", file),
    ):
        with pytest.raises(UserError, match="no home folder for ~nobody-of-this-machine; give a path without it"):
            act()


# Our own


def test_what_is_exported_can_be_imported_with_every_branch(history: History, tmp_path: Path) -> None:
    one = kept(history, *HOSTILE, "last")
    last = history.messages(one)[-1]
    history.add(one, "user", "another beginning", parent=None)
    history.select(last.id)
    history.create("completion")
    completion = history.create("completion", title="A text").id
    history.add(completion, "user", "def f(", parent=None)
    text = as_json((each, history.tree(each.id)) for each in history.list())
    with History(tmp_path / "other.db") as other:
        assert len(bring_in(other, text).conversations) == 2
        for theirs, ours in zip(other.list(), history.list(), strict=True):
            assert (theirs.title, theirs.kind, theirs.model) == (ours.title, ours.kind, ours.model)
            assert (theirs.created, theirs.updated, theirs.messages) == (ours.created, ours.updated, ours.messages)
            assert said(other, theirs.id) == said(history, ours.id)
            for mine, yours in zip(other.tree(theirs.id), history.tree(ours.id), strict=True):
                assert (mine.text, mine.options, mine.usage) == (yours.text, yours.options, yours.usage)
                assert (mine.created, mine.finish_reason) == (yours.created, yours.finish_reason)
        assert other.search("another beginning")


def test_setup_summary_and_tokens_travel_and_are_absent_where_there_are_none(history: History, tmp_path: Path) -> None:
    bare = kept(history, "hello")
    assert not {"setup", "summary", "tokens"} & set(re.findall(r'"(\w+)":', as_json(whole(history, bare))))
    tokens = (Token(5, "good", -0.5, (Alternative(6, "bad", -1.5),), 0.25), Token(7, " day", None, (), 0.5))
    conversation = history.create(setup={"when_full": "slide"}).id
    reply = Message(0, conversation, None, "assistant", "good day", 1.0, summary="a greeting")
    history.put(reply, tokens=tokens)
    text = as_json(whole(history, conversation), history.tokens)
    with History(tmp_path / "other.db") as other:
        batch = read(text, "a file")
        [one] = batch.conversations
        here = other.restore(one.conversation, one.messages, one.tokens)
        assert here.setup == {"when_full": "slide"}
        [message] = other.messages(here.id)
        assert (message.summary, other.tokens(message.id)) == ("a greeting", tokens)


def whole(history: History, conversation: int) -> list[tuple[Conversation, Sequence[Message]]]:
    """What an export takes."""
    return [(history.get(conversation), history.tree(conversation))]


def exported() -> dict[str, Any]:
    """An export of one conversation."""
    message: dict[str, Any] = {
        "id": 1, "parent": None, "role": "user", "text": "hi", "created": 1.0, "finished": True,
        "finish_reason": None, "model": "", "options": {}, "usage": {},
    }  # fmt: skip
    facts = {"title": "t", "kind": "chat", "model": "m", "created": 1, "updated": 2, "leaf": 1, "messages": [message]}
    return {"format": "chatapp-conversations", "version": 1, "conversations": [facts]}


def changed(place: str, value: object) -> dict[str, Any]:
    """The export with one thing changed, or missing where the value is `...`."""
    whole: Any = exported()
    *way, last = place.split(".")
    thing = whole
    for step in way:
        thing = thing[int(step)] if step.isdigit() else thing[step]
    if value is ...:
        del thing[last]
    else:
        thing[last] = value
    return dict(whole)


FIRST = "conversations.0.messages.0"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (changed("format", "other"), "the format 'other', not 'chatapp-conversations'"),
        (changed("version", 2), "another chatapp .version 2, not 1"),
        (changed("version", True), "'version': True, which cannot be"),
        (changed("conversations", ...), "a file has no 'conversations'"),
        (changed("conversations", [[]]), "conversation 1 of a file is not a JSON object"),
        (changed("conversations.0.kind", "x"), "conversation 1 of a file has 'kind': 'x'; known are chat, completion"),
        (changed("conversations.0.leaf", 7), "ends with message 7, which it does not have"),
        (changed("conversations.0.created", 1e300), "which is not a time"),
        (
            changed(f"{FIRST}.role", "critic"),
            "message 1 of .* 'role': 'critic'; known are system, user, assistant, tool",
        ),
        (changed(f"{FIRST}.text", None), "message 1 of conversation 1 of a file has 'text': None"),
        (changed(f"{FIRST}.text", ...), "has no 'text'"),
        (changed(f"{FIRST}.parent", 1), "a parent that is not before it"),
        (changed(f"{FIRST}.created", float("nan")), "which is not a time"),
        (changed("conversations.0.setup", {"x": float("inf")}), "has 'setup' that no JSON can hold"),
        (changed(f"{FIRST}.tokens", [[1, "a", None, 0.1]]), "message 1 of .* has tokens that are not what we write"),
        (changed(f"{FIRST}.tokens", [[1, "a", None, True, []]]), "has tokens that are not what we write"),
        (changed(f"{FIRST}.tokens", [["1", "a", None, 0, []]]), "has tokens that are not what we write"),
        (changed(f"{FIRST}.tokens", [[1, 2, None, 0, []]]), "has tokens that are not what we write"),
        (changed(f"{FIRST}.summary", 1), "has 'summary': 1, which cannot be"),
        (changed(f"{FIRST}.usage", {"x": float("inf")}), "has 'usage' that no JSON can hold"),
        ('{"format": "chatapp-conversations", ', "not valid JSON.*export it again"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no conversations that are known here; these are: our own export, ChatGPT's"),
        ('{"a": 1}', "no conversations that are known here"),
        ("[1, 2]", "no conversations that are known here"),
        ("", "a file has no messages; in Ollama"),
        ("Dear diary", "line 1 of a file begins with 'Dear', which no Modelfile has"),
    ],
)
def test_what_is_not_understood_is_refused_by_name_and_nothing_is_imported(
    history: History, content: object, says: str
) -> None:
    with pytest.raises(NotUnderstood, match=says):
        bring_in(history, content)
    assert not history.list()


def test_surrogates_and_zeros_of_a_file_do_no_harm(history: History) -> None:
    bring_in(history, changed(f"{FIRST}.text", "a\ud800\0b"))
    assert said(history, 1) == [("user", "a?\0b")]
