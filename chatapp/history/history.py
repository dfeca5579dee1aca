"""Conversations in a database: a tree of messages each, saved as they grow."""

import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from chatapp.history import search
from chatapp.history.database import connect, transaction, translated
from chatapp.history.errors import ConversationNotFound, HistoryError
from chatapp.history.records import Conversation, Found, Kind, Message, Role
from chatapp.history.text import clean, first_words, one_line

KEPT_DELETED = 30 * 24 * 3600.0
"""Seconds for which a deleted conversation can be brought back."""

CONVERSATION = "id, title, kind, model, created, updated, messages, leaf, deleted"
MESSAGE = (
    "m.id, m.conversation, m.parent, m.role, m.text, m.created, m.finished, m.finish_reason, m.model"
    ", m.options, m.usage"
)


class History:
    """All conversations of one user; may be used from several threads, and by several processes at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect(path)
        self._lock = RLock()

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Conversations

    def list(self, limit: int = -1) -> Sequence[Conversation]:
        """The conversations that have messages, the last used first."""
        query = "deleted IS NULL AND messages > 0 ORDER BY updated DESC, id DESC LIMIT ?"
        return self._conversations(query, limit)

    def last(self, kind: Kind | None = None) -> Conversation | None:
        """The conversation that was used last."""
        query = "deleted IS NULL AND messages > 0 AND kind IN (?, ?) ORDER BY updated DESC, id DESC LIMIT 1"
        kinds = (kind, kind) if kind else ("chat", "completion")
        return next(iter(self._conversations(query, *kinds)), None)

    def get(self, conversation: int) -> Conversation:
        """A conversation by its number."""
        found = next(iter(self._conversations("id = ?", conversation)), None)
        if found is None:
            raise ConversationNotFound(f"there is no conversation {conversation}; `chatapp sessions ls` lists them")
        if found.deleted is not None:
            raise ConversationNotFound(
                f"conversation {conversation} was deleted; `chatapp sessions undo` brings back the last one deleted"
            )
        return found

    def create(self, kind: Kind = "chat", *, model: str = "", title: str = "") -> Conversation:
        """Begin a conversation; until it has a message it is not listed, and its first words become its title."""
        self.purge()
        now = time.time()
        with self._writing():
            row = self.connection.execute(
                f"INSERT INTO conversations (title, kind, model, created, updated) VALUES (?, ?, ?, ?, ?) "
                f"RETURNING {CONVERSATION}",
                (one_line(title), kind, one_line(model), now, now),
            ).fetchone()
        return Conversation(*row)

    def rename(self, conversation: int, title: str) -> None:
        """Give a conversation another title."""
        title = one_line(title)
        if not title:
            raise HistoryError("the title is empty; give some words")
        self.get(conversation)
        with self._writing():
            self.connection.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation))

    def delete(self, *conversations: int) -> None:
        """Delete conversations, all or none; they can be brought back, all together, for a month."""
        now = time.time()
        with self._writing():
            for conversation in conversations:
                self.get(conversation)
            for conversation in conversations:
                self.connection.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (now, conversation))

    def undelete(self) -> Sequence[Conversation]:
        """Bring back what was deleted last, and tell what that was."""
        with self._writing():
            last = "SELECT max(deleted) FROM conversations"
            back = self._conversations(f"deleted = ({last})")
            for conversation in back:
                self.connection.execute("UPDATE conversations SET deleted = NULL WHERE id = ?", (conversation.id,))
        return [self.get(conversation.id) for conversation in back]

    def purge(self, older_than: float = KEPT_DELETED) -> int:
        """Delete for good what was deleted so many seconds ago; how many conversations that were."""
        old = self._conversations("deleted <= ?", time.time() - older_than)
        for conversation in old:
            with self._writing():  # one each, so that other processes need not wait long
                self.connection.execute("DELETE FROM messages WHERE conversation = ?", (conversation.id,))
                self.connection.execute("DELETE FROM conversations WHERE id = ?", (conversation.id,))
        return len(old)

    def erase(self) -> int:
        """Delete for good whatever was deleted, with no trace in the index or the log; how many conversations."""
        count = self.purge(older_than=0)
        with self._reading():
            self.connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    # Messages

    def messages(self, conversation: int) -> Sequence[Message]:
        """The messages of the branch that is shown, from the first to the last."""
        path = """WITH RECURSIVE path (id, parent, depth) AS (
            SELECT l.id, l.parent, 0 FROM messages l JOIN conversations c ON c.id = ? AND l.id = c.leaf
            UNION ALL SELECT l.id, l.parent, depth + 1 FROM messages l JOIN path ON l.id = path.parent
        )"""
        query = f"{path} SELECT {MESSAGE} FROM path JOIN messages m ON m.id = path.id ORDER BY depth DESC"
        return self._messages(conversation, query)

    def tree(self, conversation: int) -> Sequence[Message]:
        """The messages of all branches, each after its parent."""
        return self._messages(conversation, f"SELECT {MESSAGE} FROM messages m WHERE conversation = ? ORDER BY id")

    def latencies(self, message: int) -> Sequence[float]:
        """The seconds that each token of a reply took, all but the first."""
        with self._reading():
            row = self.connection.execute("SELECT latencies FROM messages WHERE id = ?", (message,)).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    def add(self, conversation: int, role: Role, text: str, *, parent: int | None) -> Message:
        """Add a message after another (None: at the beginning), and show its branch.

        To edit a message is to add one with the same parent; the message before stays, as another version.
        """
        return self._insert(Message(0, conversation, parent, role, clean(text), time.time()))

    def begin_reply(
        self, conversation: int, *, parent: int | None, model: str, options: Mapping[str, Any] | None = None
    ) -> Message:
        """Add an empty reply, which `grow` fills and `finish` ends; another with this parent is another version."""
        return self._insert(
            Message(
                0,
                conversation,
                parent,
                "assistant",
                "",
                time.time(),
                False,
                model=one_line(model),
                options=options or {},
            )
        )

    def grow(self, texts: Mapping[int, str]) -> None:
        """Save what replies, by their numbers, have come to so far."""
        with self._writing():
            for message, text in texts.items():
                self.connection.execute("UPDATE messages SET text = ? WHERE id = ?", (clean(text), message))

    def finish(
        self, message: int, text: str, *, finish_reason: str | None, usage: Mapping[str, Any] | None = None
    ) -> None:
        """End a reply."""
        usage = dict(usage or {})
        latencies = json.dumps([round(seconds, 6) for seconds in usage.pop("latencies", ())])
        with self._writing():
            self.connection.execute(
                "UPDATE messages SET text = ?, finished = 1, finish_reason = ?, usage = ?, latencies = ? WHERE id = ?",
                (clean(text), finish_reason, json.dumps(usage), latencies, message),
            )

    def write(self, conversation: int, text: str) -> Message | None:
        """Make a completion's text this one: what its user changed becomes a branch; the last message, if any.

        The messages that the text begins with stay, whoever wrote them; the rest is the user's.
        """
        rest, last = clean(text), None
        with self._lock:
            shown = {message.id for message in self.messages(conversation)}
            after: defaultdict[int | None, list[Message]] = defaultdict(list)
            for message in self.tree(conversation):
                if message.text:
                    after[message.parent].append(message)
            while fitting := [one for one in after[last.id if last else None] if rest.startswith(one.text)]:
                last = max(fitting, key=lambda one: (one.id in shown, one.id))
                rest = rest[len(last.text) :]
            if rest:
                return self.add(conversation, "user", rest, parent=last.id if last else None)
            if last:
                self.select(last.id)
            return last

    def select(self, message: int) -> None:
        """Show the branch that ends with a message."""
        with self._writing():
            conversation = self._conversation_of(message)
            self.connection.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (message, conversation))

    def newest(self, message: int) -> int:
        """Where the branch through a message ends, following the newest version each time."""
        query = "SELECT max(id) FROM messages WHERE conversation = ? AND parent = ?"
        with self._reading():
            conversation = self._conversation_of(message)
            while (after := self.connection.execute(query, (conversation, message)).fetchone()[0]) is not None:
                message = after
        return message

    def search(self, text: str, limit: int = 50) -> Sequence[Found]:
        """The conversations and messages that have all these words, the newest first."""
        with self._reading():
            return search.find(self.connection, clean(text), limit)

    def restore(self, conversation: Conversation, messages: Sequence[Message]) -> Conversation:
        """Add a whole conversation from elsewhere, each message after its parent, with numbers of its own here."""
        with self._writing():
            row = (one_line(conversation.title), conversation.kind, one_line(conversation.model), conversation.created)
            new = self.connection.execute(
                "INSERT INTO conversations (title, kind, model, created, updated) VALUES (?, ?, ?, ?, ?) RETURNING id",
                (*row, conversation.updated),
            ).fetchone()[0]
            places: dict[int | None, int | None] = {None: None}
            for message in messages:
                places[message.id] = self._insert_row(message, new, places[message.parent])
            self.connection.execute(
                "UPDATE conversations SET leaf = ?, updated = ?, messages = ? WHERE id = ?",
                (places[conversation.leaf], conversation.updated, len(messages), new),
            )
            self._name(new)
        return self.get(new)

    # Rows

    def _insert(self, message: Message) -> Message:
        with self._writing():
            self.get(message.conversation)
            if message.parent is not None and self._conversation_of(message.parent) != message.conversation:
                raise HistoryError(f"message {message.parent} is not in conversation {message.conversation}")
            new = self._insert_row(message, message.conversation, message.parent)
            self.connection.execute(
                "UPDATE conversations SET leaf = ?, updated = ?, messages = messages + 1 WHERE id = ?",
                (new, message.created, message.conversation),
            )
            self._name(message.conversation)
            versions = self.connection.execute(
                "SELECT id FROM messages WHERE conversation = ? AND parent IS ? ORDER BY id",
                (message.conversation, message.parent),
            ).fetchall()
        return replace(message, id=new, versions=tuple(row[0] for row in versions))

    def _insert_row(self, message: Message, conversation: int, parent: int | None) -> int:
        row = (conversation, parent, message.role, clean(message.text), message.created, message.finished)
        options, usage = json.dumps(dict(message.options)), json.dumps(dict(message.usage))
        cursor = self.connection.execute(
            "INSERT INTO messages (conversation, parent, role, text, created, finished, finish_reason, model, options, "
            "usage, latencies) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]')",
            (*row, message.finish_reason, one_line(message.model), options, usage),
        )
        return int(cursor.lastrowid or 0)

    def _name(self, conversation: int) -> None:
        """Make the title from the user's first words, where there is none yet."""
        query = """SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND trim(text) <> '' AND
            (SELECT title FROM conversations WHERE id = conversation) = '' ORDER BY id LIMIT 1"""
        if row := self.connection.execute(query, (conversation,)).fetchone():
            title = first_words(row[0])
            self.connection.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation))

    def _conversation_of(self, message: int) -> int:
        row = self.connection.execute("SELECT conversation FROM messages WHERE id = ?", (message,)).fetchone()
        if row is None:
            raise ConversationNotFound(f"there is no message {message} any more")
        return int(row[0])

    def _conversations(self, where: str, *values: object) -> Sequence[Conversation]:
        with self._reading():
            rows = self.connection.execute(f"SELECT {CONVERSATION} FROM conversations WHERE {where}", values)
            return [Conversation(*row) for row in rows]

    def _messages(self, conversation: int, query: str) -> Sequence[Message]:
        with self._reading():
            versions: defaultdict[int | None, list[int]] = defaultdict(list)
            rows = self.connection.execute(
                "SELECT parent, id FROM messages WHERE conversation = ? ORDER BY parent, id", (conversation,)
            )
            for parent, message in rows:
                versions[parent].append(message)
            tuples = {parent: tuple(children) for parent, children in versions.items()}
            return [_message(row, tuples[row[2]]) for row in self.connection.execute(query, (conversation,))]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated(self.path):
            yield self.connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translated(self.path), transaction(self.connection):
            yield self.connection


def _message(row: tuple[Any, ...], versions: tuple[int, ...]) -> Message:  # Any: SQLite's columns
    facts = (row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]), row[7], row[8])
    return Message(*facts, json.loads(row[9]), json.loads(row[10]), versions)
