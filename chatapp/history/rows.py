"""Convert rows of the database to conversations, messages and tokens, and back."""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from chatapp.generation import Alternative, Token, ToolCall
from chatapp.history import Conversation, Kind, Message, NotUnderstood, Role
from chatapp.history.text import clean, one_line

if TYPE_CHECKING:
    import sqlite3

CONVERSATION = "id, title, kind, model, created, updated, messages, leaf, deleted, setup, pinned"
MESSAGE = (
    "m.id, m.conversation, m.parent, m.role, m.text, m.created, m.finished, m.finish_reason, m.model"
    ", m.options, m.usage, m.summary, m.calls"
)
DECIMALS = 5
"""Decimals of stored log-probabilities."""
LIMIT = 1 << 28
"""Most bytes of a reply's uncompressed tokens; damaged data could inflate to far more."""


class Columns:
    """Checks the columns of one row, in which SQLite stores any type; wrong values are replaced and listed."""

    def __init__(self) -> None:
        self.damaged: list[str] = []

    def text(self, name: str, value: object) -> str:
        """A text; bytes that are no UTF-8 were replaced when they were read."""
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        return str(self._checked(name, text, isinstance(text, str), ""))

    def number(self, name: str, value: object) -> int:
        """A count, or the number of a row."""
        return int(self._checked(name, value, isinstance(value, int), 0))

    def time(self, name: str, value: object) -> float:
        """Seconds since 1970, within the years of calendars."""
        return float(self._checked(name, value, isinstance(value, int | float) and 0 <= value < 4e9, 0))

    def chosen(self, name: str, value: object, known: Sequence[str], otherwise: str) -> Any:  # Any: one of the Literal
        """One of a few words."""
        return self._checked(name, value, value in known, otherwise)

    def _checked(self, name: str, value: object, right: bool, otherwise: object) -> Any:  # Any: what is right
        if not right:
            self.damaged.append(name)
        return value if right else otherwise

    def facts(self, name: str, value: object) -> Mapping[str, Any]:  # Any: JSON
        """An object in JSON."""
        if value == "{}":
            return {}
        try:
            found = json.loads(value, parse_constant=refuse_constant)  # type: ignore[arg-type]  # TypeError is caught
            if isinstance(found, dict):
                return found
        except (TypeError, ValueError, RecursionError):
            pass
        self.damaged.append(name)
        return {}

    def calls(self, name: str, value: object) -> tuple[ToolCall, ...]:
        """Calls of tools in JSON."""
        if value == "[]":
            return ()
        try:
            return calls_of_lists(json.loads(value), "the database")  # type: ignore[arg-type]  # TypeError is caught
        except (TypeError, ValueError, RecursionError, NotUnderstood):
            self.damaged.append(name)
            return ()


def refuse_constant(constant: str) -> None:
    """Raise for NaN and infinities, which JSON lacks."""
    raise ValueError(constant)


def read_conversation(row: Sequence[Any]) -> Conversation:  # Any: SQLite's columns
    """Read a conversation from the columns in CONVERSATION."""
    of = Columns()
    return Conversation(
        row[0],
        of.text("title", row[1]),
        of.chosen("kind", row[2], get_args(Kind), "chat"),
        of.text("model", row[3]),
        of.time("created", row[4]),
        of.time("updated", row[5]),
        of.number("messages", row[6]),
        None if row[7] is None else of.number("leaf", row[7]),
        None if row[8] is None else of.time("deleted", row[8]),
        of.facts("setup", row[9]),
        pinned=bool(of.number("pinned", row[10])),
        damaged=tuple(of.damaged),
    )


def read_message(row: Sequence[Any], parent: int | None, versions: tuple[int, ...]) -> Message:
    """Read a message from the columns in MESSAGE; `parent` is its parent in the tree."""
    of = Columns()
    if parent != row[2]:
        of.damaged.append("parent")
    return Message(
        row[0],
        of.number("conversation", row[1]),
        parent,
        of.chosen("role", row[3], get_args(Role), "assistant"),
        of.text("text", row[4]),
        of.time("created", row[5]),
        bool(row[6]),
        None if row[7] is None else of.text("finish_reason", row[7]),
        of.text("model", row[8]),
        of.facts("options", row[9]),
        of.facts("usage", row[10]),
        versions,
        of.text("summary", row[11]),
        of.calls("calls", row[12]),
        tuple(of.damaged),
    )


def insert_message(connection: "sqlite3.Connection", new: Message, latencies: Sequence[float] = ()) -> int:
    """Insert a message, and return its number."""
    place = (new.conversation, new.parent, new.role, clean(new.text), new.created, new.finished, new.finish_reason)
    how = (one_line(new.model), json.dumps(dict(new.options)), json.dumps(dict(new.usage)))
    said = (write_latencies(latencies), clean(new.summary), write_calls(new.calls))
    cursor = connection.execute(
        "INSERT INTO messages (conversation, parent, role, text, created, finished, finish_reason, model, options, "
        "usage, latencies, summary, calls) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*place, *how, *said),
    )
    return int(cursor.lastrowid or 0)


def write_calls(calls: Sequence[ToolCall]) -> str:
    """Write calls as JSON."""
    return json.dumps(calls_as_lists(calls))


def calls_as_lists(calls: Sequence[ToolCall]) -> list[list[str]]:
    """Calls as lists: name, arguments, id."""
    return [[clean(call.name), clean(call.arguments), clean(call.id)] for call in calls]


def calls_of_lists(lists: Any, where: str) -> tuple[ToolCall, ...]:  # Any: JSON, checked here
    """Read the calls of such lists."""
    try:
        calls = tuple(ToolCall(*(_checked(part, str) for part in one)) for one in _checked(lists, list))
        if all(isinstance(json.loads(call.arguments), dict) for call in calls):
            return calls
    except (TypeError, ValueError, RecursionError) as error:
        raise NotUnderstood(f"{where} has calls that are not what we write") from error
    raise NotUnderstood(f"{where} has a call whose arguments are no JSON object")


def keep_tokens(connection: "sqlite3.Connection", number: int, tokens: Sequence[Token]) -> None:
    """Store a message's tokens, compressed, if there are any."""
    if tokens:
        content = zlib.compress(json.dumps(as_lists(tokens), separators=(",", ":")).encode(), 6)
        connection.execute("INSERT OR REPLACE INTO tokens (message, content) VALUES (?, ?)", (number, content))


def write_latencies(latencies: Sequence[float]) -> str:
    """Latencies as JSON, with microsecond precision."""
    return json.dumps([round(seconds, 6) for seconds in latencies])


def read_latencies(content: object) -> Sequence[float]:
    """Read the latencies of a reply; none where they are damaged."""
    try:
        found = json.loads(content)  # type: ignore[arg-type]  # TypeError is caught
        return tuple(float(seconds) for seconds in found)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return ()


def unpack_tokens(content: object) -> Sequence[Token]:
    """Read the compressed tokens of a reply; none where they are damaged."""
    try:
        inflating = zlib.decompressobj()
        lists = json.loads(inflating.decompress(content, LIMIT)) if isinstance(content, bytes) else ()
        return of_lists(lists, "the database")
    except (zlib.error, ValueError, RecursionError, NotUnderstood):
        return ()


def as_lists(tokens: Sequence[Token]) -> list[Any]:  # Any: JSON
    """Tokens as lists: id, text, log-probability, seconds, alternatives (id, text, log-probability)."""
    return [
        [
            token.id,
            clean(token.text),
            None if token.logprob is None else round(token.logprob, DECIMALS),
            round(token.seconds, 6),
            [[other.id, clean(other.text), round(other.logprob, DECIMALS)] for other in token.alternatives],
        ]
        for token in tokens
    ]


def of_lists(lists: Any, where: str) -> Sequence[Token]:  # Any: JSON, checked here
    """Read the tokens of such lists."""
    try:
        return tuple(
            Token(
                _checked(number, int),
                _checked(text, str),
                None if logprob is None else _number(logprob),
                tuple(
                    Alternative(_checked(one, int), _checked(spelling, str), _number(chance))
                    for one, spelling, chance in others
                ),
                _seconds(seconds),
            )
            for number, text, logprob, seconds, others in lists
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise NotUnderstood(f"{where} has tokens that are not what we write") from error


def _checked(value: Any, *kinds: type) -> Any:  # Any: one of the kinds
    """A value of one of these types; bool is no int."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError
    return value


def _number(value: object) -> float:
    return float(_checked(value, int, float))


def _seconds(value: object) -> float:
    seconds = _number(value)
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds
