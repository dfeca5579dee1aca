"""Rows of the database as conversations and messages, and back."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chatapp.generation import Token
from chatapp.history.records import Conversation, Message
from chatapp.history.text import clean, one_line
from chatapp.history.tokens import packed

CONVERSATION = "id, title, kind, model, created, updated, messages, leaf, deleted, setup"
MESSAGE = (
    "m.id, m.conversation, m.parent, m.role, m.text, m.created, m.finished, m.finish_reason, m.model"
    ", m.options, m.usage, m.summary"
)


def conversation(row: tuple[Any, ...]) -> Conversation:  # Any: SQLite's columns
    """A conversation of the columns in CONVERSATION."""
    return replace(Conversation(*row[:9]), setup=json.loads(row[9]))


def message(row: tuple[Any, ...], versions: tuple[int, ...]) -> Message:
    """A message of the columns in MESSAGE."""
    facts = (row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7], row[8])
    return Message(*facts, json.loads(row[9]), json.loads(row[10]), versions, row[11])


def insert(connection: sqlite3.Connection, new: Message, latencies: Sequence[float] = ()) -> int:
    """Add a message, and give its number."""
    place = (new.conversation, new.parent, new.role, clean(new.text), new.created, new.finished, new.finish_reason)
    how = (one_line(new.model), json.dumps(dict(new.options)), json.dumps(dict(new.usage)))
    cursor = connection.execute(
        "INSERT INTO messages (conversation, parent, role, text, created, finished, finish_reason, model, options, "
        "usage, latencies, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*place, *how, times(latencies), clean(new.summary)),
    )
    return int(cursor.lastrowid or 0)


def keep_tokens(connection: sqlite3.Connection, number: int, tokens: Sequence[Token]) -> None:
    """Keep the tokens of a message, where there are any."""
    if tokens:
        content = packed(tokens)
        connection.execute("INSERT OR REPLACE INTO tokens (message, content) VALUES (?, ?)", (number, content))


def times(latencies: Sequence[float]) -> str:
    """Latencies in microseconds' precision."""
    return json.dumps([round(seconds, 6) for seconds in latencies])
