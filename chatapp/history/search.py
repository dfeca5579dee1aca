"""Search conversations: words with the index, everything else by reading all texts."""

import re
import secrets
import sqlite3
from itertools import chain
from typing import Any

from chatapp.history import Found, rows

AROUND = 60
"""Characters of a snippet before the first match; there are twice as many after it."""
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words, for which the index has whole lines only."""
COLUMNS = "c.id, c.title, c.kind, c.model, c.created, c.updated, c.messages, c.leaf, c.deleted"
LATEST = "c.updated DESC, m.id DESC"
"""The order of messages: by their conversations' last use, then newest first."""


def find(connection: sqlite3.Connection, text: str, limit: int) -> list[Found]:
    """Find all words of a text: first in titles, then in messages; last used first."""
    terms = text.split()
    if not terms or "\0" in text:
        return []
    if all(any(map(str.isalnum, term)) for term in terms) and not UNSPACED.search(text):
        found = _by_words(connection, terms, limit)
    else:
        source = "m.id, m.text FROM messages m JOIN conversations c ON c.id = m.conversation"
        found = _by_letters(connection, source, "m.text", LATEST, terms, limit)
    source = "NULL, c.title FROM conversations c"
    titled = _by_letters(connection, source, "c.title", "c.updated DESC", terms, limit, "AND c.messages > 0")
    names = {one.conversation.id for one in titled}
    first = [[one for one in found if one.conversation.id == title.conversation.id] or [title] for title in titled]
    return [*chain(*first), *(one for one in found if one.conversation.id not in names)][:limit]


def _by_words(connection: sqlite3.Connection, terms: list[str], limit: int) -> list[Found]:
    """Search with the index: words in any case and without accents, the last one perhaps incomplete."""
    quoted = ['"' + term.replace('"', '""') + '"' for term in terms]
    if len(terms[-1]) > 2 and terms[-1][-1].isalnum():
        quoted[-1] += " *"
    mark = secrets.token_hex(8)  # texts cannot contain it
    hits = connection.execute(
        f"SELECT {COLUMNS}, m.id, highlight(words, 0, ?, ?) FROM words "
        "JOIN messages m ON m.id = words.rowid JOIN conversations c ON c.id = m.conversation "
        "WHERE words MATCH ? AND words.rowid IN (SELECT words.rowid FROM words "
        "JOIN messages m ON m.id = words.rowid JOIN conversations c ON c.id = m.conversation "
        f"WHERE words MATCH ? AND c.deleted IS NULL ORDER BY {LATEST} LIMIT ?) ORDER BY {LATEST}",
        (f"{mark}<", f"{mark}>", " ".join(quoted), " ".join(quoted), limit),  # marks only where they are shown
    )
    found = []
    for row in hits:
        pieces = re.split(f"{mark}([<>])", _text(row[-1]))
        whole, marks = "", []
        for piece, kind in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
            start, whole = len(whole), whole + piece
            if kind == ">":
                marks.append((start, len(whole)))
        found.append(_found(row, whole, marks))
    return found


def _by_letters(
    connection: sqlite3.Connection, source: str, column: str, order: str, terms: list[str], limit: int, more: str = ""
) -> list[Found]:
    """Search by reading a column's texts, the source's last column: any characters."""
    conditions, patterns = _like(column, terms)
    query = f"SELECT {COLUMNS}, {source} WHERE {conditions} AND c.deleted IS NULL {more} ORDER BY {order} LIMIT ?"
    hits = connection.execute(query, (*patterns, limit))
    return [_found(row, text := _text(row[-1]), _places(text, terms)) for row in hits]


def _like(column: str, terms: list[str]) -> tuple[str, list[str]]:
    """A condition for all terms, and its patterns."""
    conditions, patterns = [], []
    for term in sorted(terms, key=_is_caseless, reverse=True):
        if _is_caseless(term):
            conditions.append(f"instr({column}, ?)")
            patterns.append(term)
        else:
            conditions.append(f"{column} LIKE ? ESCAPE '\\'")
            patterns.append("%" + re.sub(r"([\\%_])", r"\\\1", term) + "%")
    return " AND ".join(conditions), patterns


def _is_caseless(term: str) -> bool:
    """Whether a term has no case, as in Chinese, so that the search is twice as fast."""
    return term.lower() == term.upper()


def _places(text: str, terms: list[str]) -> list[tuple[int, int]]:
    """The places of the terms in a text, in any case."""
    return [match.span() for match in re.finditer("|".join(map(re.escape, terms)), text, re.IGNORECASE)]


def _found(row: tuple[Any, ...], text: str, marks: list[tuple[int, int]]) -> Found:
    """A search result with the text around the first match."""
    first = marks[0][0] if marks else 0
    start, end = max(0, first - AROUND), first + 2 * AROUND
    before, after = "…" if start else "", "…" if len(text) > end else ""
    shown = [(low - start + len(before), min(high, end) - start + len(before)) for low, high in marks if low < end]
    snippet = before + re.sub(r"\s", " ", text[start:end]) + after
    return Found(rows.read_conversation((*row[:9], "{}", 0)), row[9], snippet, tuple(shown))


def _text(value: object) -> str:
    """A text from the database, which may be damaged."""
    return rows.Columns().text("text", value)
