"""Make Markdown inert: no HTML, link or image, in whatever viewer; it reads as before."""

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from chatapp.text.markdown import compile_rules
from chatapp.text.printable import printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

SPELLED = re.compile(r"\\\\|\\([@:./+-])(?=[\w/])|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{1,31});")
"""Escapes and references for characters in addresses."""
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@:./+-")
WORD = re.compile(r"(\\*)([^\s<>|*~\"'()\[\]{}`\\]+)")
"""A word, not divided by spaces or marks of Markdown, with the backslashes before it."""
ADDRESS = re.compile(
    r"//.|[@＠]|(?:mailto|xmpp):|www\.|[.。．](?:[^\W\d_]{2}|aero|asia|biz|com|coop|edu|gov|info|museum|name|net|org|pro"
    r"|shop|web|xn--[\w-]+|xxx|рф)(?![^\W_-])",
    re.IGNORECASE,
)
"""What some viewers turn into links: a scheme, mail, or a host name."""
AROUND = re.compile(r"[_,;:!?.]*")
"""Punctuation around an address that is not part of it."""


def disarm(text: str) -> str:
    """Disarm Markdown: only blocks of code stay as they were; no HTML, no link, no image."""
    lines = printable(text).split("\n")
    code, end = find_code(lines)
    inside = {line for block in code for line in block}
    made = [line if place in inside else disarm_line(line) for place, line in enumerate(lines)]
    if find_code(made)[0] != code:  # viewers must agree with us on what is code
        return "\n".join(map(disarm_line, lines))
    return "\n".join([*made, end] if end else made)


def find_code(lines: Sequence[str]) -> tuple[list[range], str]:
    """The lines of each fenced block, and what would close the last one if it is open."""
    found, end = [], ""
    fenced = any("```" in line or "~~~" in line for line in lines)
    for token in shared_parser().parse("\n".join(lines)) if fenced else ():
        if token.type == "fence" and token.map and (token.level or lines[token.map[0]][:1] in "`~"):
            found.append(range(*token.map))
            last = lines[found[-1][-1]].strip()
            closed = len(found[-1]) > 1 and set(last) == {token.markup[0]} and len(last) >= len(token.markup)
            end = "" if closed or token.level else token.markup  # in a list it ends with that
    return found, end


@cache
def shared_parser() -> "MarkdownIt":
    """The parser for all threads, which finds blocks but does not look into them."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": 100})
    return compile_rules(made.disable(["inline", "reference", "html_block"]))


def undo_markup(text: str) -> str:
    """Undo the HTML, links and images of Markdown."""
    return re.sub(r"\](?=[(:\[])", r"]\\", re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text))


def disarm_line(line: str) -> str:
    """Disarm a line: undo its HTML, links and images, and show every address as code, which no viewer links."""
    parts = split_line(line)
    return "".join(
        code_addresses(undo_markup(unspell(text)), after_code=place > 0, before_code=bool(code)) + code
        for place, (text, code) in enumerate(parts)
    )


def split_line(line: str) -> list[tuple[str, str]]:
    """Split a line into pairs of text and the code after it.

    Only code that is complete in the line and its table cell counts; marks of other code, and those that could belong
    to a block, become plain characters.
    """
    marks = list(re.finditer("`+", line))
    found, text, start, place = [], "", 0, 0
    while place < len(marks):
        mark = marks[place]
        place += 1
        text += line[start : mark.start()]
        start = mark.start()
        if (len(text) - len(text.rstrip("\\"))) % 2:  # an escaped one
            text, start = text + "`", start + 1
        length = mark.end() - start
        end = next((at for at in range(place, len(marks)) if len(marks[at][0]) == length), None)
        if not 0 < length < 3 or end is None or "|" in line[start : marks[end].end()]:
            text, start = text + "\\`" * length, mark.end()
        else:
            found.append((text, line[start : marks[end].end()]))
            text, start, place = "", marks[end].end(), end + 1
    return [*found, (text + line[start:], "")]


def unspell(text: str) -> str:
    """Undo escapes and references of characters in addresses."""

    def plain(match: re.Match[str]) -> str:
        if match[0].startswith("&"):
            character = html.unescape(match[0])
            return character if character in PLAIN else match[0]
        return match[1] or match[0]

    return SPELLED.sub(plain, text)


def code_addresses(text: str, *, after_code: bool, before_code: bool) -> str:
    """Show each address in a text as code."""

    def code(match: re.Match[str]) -> str:
        slashes, word = match[1], match[2]
        if not ADDRESS.search(word):
            return match[0]
        before = AROUND.match(word)[0]  # type: ignore[index]  # it matches anywhere
        after = AROUND.match(word[: len(before) - 1 if before else None : -1])[0][::-1]  # type: ignore[index]
        if "//" in before + after or "." in before:
            before = after = ""
        address = word[len(before) : len(word) - len(after)]
        slashes += "\\" * (len(slashes) % 2 if not before else 0)
        if after_code and match.start() == 0 and not slashes + before:  # adjacent marks of code would become one
            before, address = f"&#{ord(address[0])};", address[1:]
        if before_code and match.end() == len(text) and not after and address:
            after, address = f"&#{ord(address[-1])};", address[:-1]
        return slashes + before + (f"`{address}`" if address else "") + after

    return WORD.sub(code, text)
