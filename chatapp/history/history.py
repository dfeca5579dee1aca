"""Conversations in a database, each a tree of messages, saved while they grow."""

import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from threading import RLock
from typing import Any, Self

from chatapp.generation import Token
from chatapp.generation.states import STATES, forget
from chatapp.history import Conversation, Found, HistoryError, Kind, Message, Role, rows, search
from chatapp.history.database import PATIENCE, connect, snapshot, transaction, translate_errors
from chatapp.history.text import clean, first_words, has_words, one_line

KEPT_DELETED = 30 * 24 * 3600.0
"""Seconds during which a deleted conversation can be restored."""
LISTED = {False: "deleted IS NULL AND messages > 0", True: "deleted IS NULL AND (messages > 0 OR draft <> '')"}
"""The conversations that count: those with messages, or also those with only a draft."""
ORDER = "ORDER BY pinned DESC, updated DESC, id DESC"
"""How they are listed: those that are pinned, then the last used first."""

BEGINNING = """WITH RECURSIVE branch(parent, text, depth) AS (
        SELECT m.parent, m.text, 0 FROM messages m JOIN conversations c ON c.leaf = m.id
        WHERE c.id = ? AND c.kind = 'completion'
    UNION ALL
        SELECT m.parent, m.text, depth + 1 FROM messages m JOIN branch ON m.id = branch.parent WHERE depth < 10000)
    SELECT text FROM branch ORDER BY depth DESC LIMIT 20"""
"""The query for the beginning of a completion's shown branch; empty for a chat."""


class History:
    """All conversations of one user; usable from several threads, and several processes at once."""

    def __init__(self, path: Path | None) -> None:
        """Open the database at `path`; None: in memory, until the program ends."""
        self.path = path
        self.connection = connect(path)
        self.inode = path.stat().st_ino if path else 0
        """The inode of the database's file."""
        self.patience = PATIENCE
        self._damage: dict[str, bool] = {}
        """The damaged rows that were read, a line each, and whether `new_damage` has reported it."""
        self._lock = RLock()
        self._closed = False

    def wait_at_most(self, seconds: float) -> None:
        """Set how long to wait for another program that holds the conversations."""
        self.patience = seconds
        with self._reading() as connection:
            connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def reopen(self) -> None:
        """Reopen the database: a file that was read-only may be writable by now."""
        with self._lock:
            self._check_file()  # a new file would not have the open conversations
            before, self.connection = self.connection, connect(self.path)
            before.close()
            self.wait_at_most(self.patience)

    def close(self) -> None:
        """Close the database; threads that still use it get an error."""
        with self._lock:
            self._closed = True
            self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Conversations

    def list(self, limit: int = -1, *, drafts: bool = False) -> Sequence[Conversation]:
        """Conversations with messages, pinned first, then by last use; with `drafts`, also those with only a draft."""
        return self._conversations(f"{LISTED[drafts]} {ORDER} LIMIT ?", limit)

    def page(self, words: str = "", limit: int = -1) -> tuple[Sequence[Conversation], int]:
        """The conversations whose titles have all these words, in the order of `list`, and how many there are.

        An unsent draft's first words are the title of a conversation without messages.
        """
        with self._reading(), snapshot(self.connection):
            where = LISTED[True]
            if words.strip():
                titles = self.connection.execute(
                    f"SELECT id, iif(title = '', draft, title) FROM conversations WHERE {where} {ORDER}"
                )
                ids = [number for number, title in titles if has_words(title, words)]
                shown, count = ", ".join(map(str, ids if limit < 0 else ids[:limit])), len(ids)
                found = self._conversations(f"id IN ({shown}) {ORDER}")
            else:
                count = self._value(f"SELECT count(*) FROM conversations WHERE {where}")
                found = self.list(limit, drafts=True)
            return [one if one.title else replace(one, title=first_words(self.draft(one.id))) for one in found], count

    def last(self, kind: Kind | None = None, *, drafts: bool = False) -> Conversation | None:
        """The conversation last used or shown; with `drafts`, also one with only a draft."""
        query = f"{LISTED[drafts]} AND kind IN (?, ?) ORDER BY max(updated, shown) DESC, id DESC LIMIT 1"
        kinds = (kind, kind) if kind else ("chat", "completion")
        return next(iter(self._conversations(query, *kinds)), None)

    def get(self, conversation: int) -> Conversation:
        """A conversation by its number."""
        found = next(iter(self._conversations("id = ?", conversation)), None)
        if found is None:
            raise HistoryError(f"there is no conversation {conversation}; to list them: chatapp sessions ls")
        if found.deleted is not None:
            raise HistoryError(
                f"conversation {conversation} was deleted; to restore the last one deleted: chatapp sessions undo"
            )
        return found

    def create(
        self, kind: Kind = "chat", *, model: str = "", title: str = "", setup: Mapping[str, Any] | None = None
    ) -> Conversation:
        """Begin a conversation; until it has a message it is not listed, and its first words become its title."""
        self.purge()
        now = time.time()
        return self.restore(Conversation(0, title, kind, model, now, now, 0, None, setup=setup or {}), ())

    def fork(self, conversation: int, messages: Sequence[Message]) -> Conversation:
        """Begin another conversation with these messages of one, each after the one before."""
        copied: list[Message] = []
        for message in messages:
            copied.append(replace(message, parent=copied[-1].id if copied else None))
        origin = self.get(conversation)
        title = name_fork(origin.title, {one.title for one in self.list()})
        begun = replace(origin, title=title, leaf=copied[-1].id, updated=time.time())
        return self.restore(begun, copied, {message.id: self.tokens(message.id) for message in copied})

    def keep_setup(self, conversation: int, setup: Mapping[str, Any]) -> None:
        """Save a conversation's setup."""
        with self._writing():
            self._set(conversation, setup=json.dumps(setup))

    def draft(self, conversation: int) -> str:
        """A conversation's unsent draft."""
        return str(self._value("SELECT draft FROM conversations WHERE id = ?", conversation) or "")

    def keep_draft(self, conversation: int, draft: str) -> None:
        """Save an unsent draft; exports leave it out."""
        with self._writing():
            self._set(conversation, draft=clean(draft))

    def mark_shown(self, conversation: int) -> None:
        """Mark a conversation as the one shown last, without moving it in the list."""
        with self._writing():
            self._set(conversation, shown=time.time())

    def rename(self, conversation: int, title: str) -> None:
        """Give a conversation another title."""
        title = one_line(title)
        if not title:
            raise HistoryError("the title is empty; give one")
        self.get(conversation)
        with self._writing():
            self._set(conversation, title=title)

    def pin(self, conversation: int, pinned: bool = True) -> None:
        """List a conversation before all others, or no longer."""
        self.get(conversation)
        with self._writing():
            self._set(conversation, pinned=int(pinned))

    def delete(self, *conversations: int) -> None:
        """Delete conversations, all or none; for a month they can be restored together."""
        now = time.time()
        with self._writing():
            for conversation in conversations:
                self.get(conversation)
            for conversation in conversations:
                self._set(conversation, deleted=now)
        if self.path:
            forget(self.path.parent / STATES, map(str, conversations))

    def undelete(self) -> Sequence[Conversation]:
        """Restore what was deleted last, and return it."""
        with self._writing():
            last = "SELECT max(deleted) FROM conversations"
            back = self._conversations(f"deleted = ({last})")
            for conversation in back:
                self._set(conversation.id, deleted=None)
        return [self.get(conversation.id) for conversation in back]

    def purge(self, older_than: float = KEPT_DELETED) -> int:
        """Delete for good what was deleted `older_than` seconds ago; returns the number of conversations."""
        old = self._conversations("deleted <= ?", time.time() - older_than)
        for conversation in old:
            with self._writing():  # one by one, so that other processes need not wait long
                self.connection.execute("DELETE FROM messages WHERE conversation = ?", (conversation.id,))
                self.connection.execute("DELETE FROM conversations WHERE id = ?", (conversation.id,))
        return len(old)

    def erase(self) -> int:
        """Delete for good whatever was deleted, from index and log too; returns the number of conversations."""
        count = self.purge(older_than=0)
        with self._reading():
            self.connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    # Messages

    def messages(self, conversation: int) -> Sequence[Message]:
        """The messages of the shown branch, first to last."""
        with self._reading() as connection, snapshot(connection):  # consistent
            leaf = next((one.leaf for one in self._conversations("id = ?", conversation)), None)
            messages = {message.id: message for message in self.tree(conversation)}
        branch = []
        place = leaf if leaf is None or leaf in messages else max(messages, default=None)
        while place is not None:
            branch.append(messages[place])
            place = branch[-1].parent
        return branch[::-1]

    def tree(self, conversation: int) -> Sequence[Message]:
        """The messages of all branches, each after its parent; one whose parent is lost begins a branch."""
        query = f"SELECT {rows.MESSAGE} FROM messages m WHERE conversation = ? ORDER BY id"
        with self._reading() as connection:
            found = connection.execute(query, (conversation,)).fetchall()
        parents: dict[int, int | None] = {}
        versions: defaultdict[int | None, list[int]] = defaultdict(list)
        for row in found:
            parent = row[2] if isinstance(row[2], int) and row[2] in parents else None
            parents[row[0]] = parent
            versions[parent].append(row[0])
        tuples = {parent: tuple(children) for parent, children in versions.items()}
        messages = [rows.read_message(row, parents[row[0]], tuples[parents[row[0]]]) for row in found]
        for message in messages:
            if message.damaged:
                self._note(f"message {message.id} of conversation {conversation}", message.damaged)
        return messages

    def latencies(self, message: int) -> Sequence[float]:
        """The latencies of a reply's tokens, all but the first, in seconds."""
        return rows.read_latencies(self._value("SELECT latencies FROM messages WHERE id = ?", message))

    def tokens(self, message: int) -> Sequence[Token]:
        """A reply's tokens, if they were kept."""
        return rows.unpack_tokens(self._value("SELECT content FROM tokens WHERE message = ?", message))

    def prompts(self, limit: int = 1000) -> Sequence[str]:
        """The user's distinct prompts, newest first."""
        query = """SELECT m.text FROM messages m JOIN conversations c ON c.id = m.conversation
            WHERE m.role = 'user' AND c.kind = 'chat' AND c.deleted IS NULL ORDER BY m.id DESC LIMIT ?"""
        with self._reading():
            texts = self.connection.execute(query, (20 * limit,))
            said = (rows.Columns().text("text", text) for (text,) in texts)
            return list(islice(dict.fromkeys(text for text in said if text.strip()), limit))

    def add(self, conversation: int, role: Role, text: str, *, parent: int | None) -> Message:
        """Add a message after another (None: at the beginning), and show its branch.

        Editing a message means adding one with the same parent; the old one stays as another version.
        """
        return self.put(Message(0, conversation, parent, role, text, time.time()))

    def put(self, message: Message, *, tokens: Sequence[Token] = (), latencies: Sequence[float] = ()) -> Message:
        """Add a complete message under a new number, and show its branch."""
        with self._writing(), self._entitling(message.conversation):
            self.get(message.conversation)
            if message.parent is not None and self._conversation_of(message.parent) != message.conversation:
                raise HistoryError(f"message {message.parent} is not in conversation {message.conversation}")
            new = rows.insert_message(self.connection, message, latencies)
            rows.keep_tokens(self.connection, new, tokens)
            self.connection.execute(
                "UPDATE conversations SET leaf = ?, updated = max(updated, ?), messages = messages + 1 WHERE id = ?",
                (new, message.created, message.conversation),
            )
            self._name(message.conversation)
            versions = self.connection.execute(
                "SELECT id FROM messages WHERE conversation = ? AND parent IS ? ORDER BY id",
                (message.conversation, message.parent),
            ).fetchall()
        return replace(message, id=new, text=clean(message.text), versions=tuple(row[0] for row in versions))

    def change(self, message: Message, *, tokens: Sequence[Token] = (), latencies: Sequence[float] = ()) -> None:
        """Save a changed message: a reply that grows or has ended, or a summary."""
        usage, seconds = json.dumps(dict(message.usage)), rows.write_latencies(latencies)
        with self._writing(), self._entitling(message.conversation):
            self.connection.execute(
                "UPDATE messages SET text = ?, finished = ?, finish_reason = ?, usage = ?, summary = ?, calls = ?, "
                "latencies = iif(? = '[]', latencies, ?) WHERE id = ?",
                (clean(message.text), message.finished, message.finish_reason, usage, clean(message.summary))
                + (rows.write_calls(message.calls), seconds, seconds, message.id),
            )
            rows.keep_tokens(self.connection, message.id, tokens)

    def withdraw(self, message: int) -> None:
        """Delete a message without followers; its parent then ends the branch."""
        with self._writing():
            row = self.connection.execute(
                "DELETE FROM messages WHERE id = ? AND NOT EXISTS (SELECT 1 FROM messages l WHERE "
                "l.conversation = messages.conversation AND l.parent = messages.id) RETURNING conversation, parent",
                (message,),
            ).fetchone()
            if row:
                self.connection.execute(
                    "UPDATE conversations SET messages = messages - 1, leaf = iif(leaf = ?, ?, leaf), "
                    "title = iif(messages = 1, '', title) WHERE id = ?",
                    (message, row[1], row[0]),
                )

    def select(self, message: int) -> None:
        """Show the branch that ends with a message."""
        with self._writing():
            self._set(self._conversation_of(message), leaf=message)

    def search(self, text: str, limit: int = 50) -> Sequence[Found]:
        """The conversations and messages that have all these words, newest first."""
        with self._reading():
            return search.find(self.connection, clean(text), limit)

    def restore(
        self,
        conversation: Conversation,
        messages: Sequence[Message],
        tokens: Mapping[int, Sequence[Token]] | None = None,
    ) -> Conversation:
        """Add a whole conversation from elsewhere under new numbers; each message follows its parent."""
        with self._writing():
            row = (one_line(conversation.title), conversation.kind, one_line(conversation.model), conversation.created)
            new = self.connection.execute(
                "INSERT INTO conversations (title, kind, model, created, updated, setup) VALUES (?, ?, ?, ?, ?, ?) "
                "RETURNING id",
                (*row, conversation.updated, json.dumps(dict(conversation.setup))),
            ).fetchone()[0]
            places: dict[int | None, int | None] = {None: None}
            place: int | None = None
            for message in messages:
                here = replace(message, conversation=new, parent=places[message.parent])
                places[message.id] = place = rows.insert_message(self.connection, here)
                rows.keep_tokens(self.connection, place, (tokens or {}).get(message.id, ()))
            self.connection.execute(
                "UPDATE conversations SET leaf = ?, updated = ?, messages = ? WHERE id = ?",
                (places.get(conversation.leaf, place), conversation.updated, len(messages), new),
            )
            self._name(new)
        return self.get(new)

    # Rows

    def _name(self, conversation: int) -> None:
        """Set the title from the user's first words, if there is none."""
        query = """SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND trim(text) <> '' AND
            (SELECT title FROM conversations WHERE id = conversation) = '' ORDER BY id LIMIT 1"""
        if text := self._value(query, conversation):
            self._set(conversation, title=first_words(text))

    @contextmanager
    def _entitling(self, conversation: int) -> Iterator[None]:
        """Context that keeps a completion's title its first words, unless it was renamed."""
        before = self._begin_text(conversation)
        yield
        title = "UPDATE conversations SET title = ? WHERE id = ? AND title = ? AND kind = 'completion'"
        self.connection.execute(title, (self._begin_text(conversation), conversation, before))

    def _begin_text(self, conversation: int) -> str:
        """The first words of the shown branch."""
        found = self.connection.execute(BEGINNING, (conversation,)).fetchall()
        return first_words("".join(rows.Columns().text("text", text) for (text,) in found))

    def _set(self, conversation: int, **columns: object) -> None:
        """Change columns of a conversation; their names come from our code only."""
        names = ", ".join(f"{name} = ?" for name in columns)
        self.connection.execute(f"UPDATE conversations SET {names} WHERE id = ?", (*columns.values(), conversation))

    def _conversation_of(self, message: int) -> int:
        conversation = self._value("SELECT conversation FROM messages WHERE id = ?", message)
        if conversation is None:
            raise HistoryError(f"message {message} no longer exists")
        return int(conversation)

    def _value(self, query: str, *values: object) -> Any:  # Any: what SQLite keeps there
        """The first column of the first row; None where there is none."""
        with self._reading() as connection:
            row = connection.execute(query, values).fetchone()
        return row[0] if row else None

    def _conversations(self, where: str, *values: object) -> Sequence[Conversation]:
        with self._reading():
            found = self.connection.execute(f"SELECT {rows.CONVERSATION} FROM conversations WHERE {where}", values)
            conversations = [rows.read_conversation(row) for row in found]
        for conversation in conversations:
            if conversation.damaged:
                self._note(f"conversation {conversation.id}", conversation.damaged)
        return conversations

    def new_damage(self) -> Sequence[str]:
        """The damaged rows that were read and not yet reported, a line each."""
        lines = [line for line, told in self._damage.items() if not told]
        self._damage |= dict.fromkeys(lines, True)
        return lines

    def _note(self, what: str, columns: Sequence[str]) -> None:
        """Record that something is damaged, to report it."""
        self._damage.setdefault(f"{what} is damaged: its {' and its '.join(columns)} cannot be read", False)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, translate_errors(self.path):
            if self._closed:
                raise HistoryError("the conversations have been closed; restart chatapp")
            yield self.connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            self._check_file()
            with transaction(connection):
                yield connection

    def _check_file(self) -> None:
        """Raise if the file was deleted or moved: SQLite would go on writing to it."""
        with suppress(OSError):
            if not self.path or self.path.stat().st_ino == self.inode:
                return
        raise HistoryError(f"{self.path} was deleted, moved or replaced; put it back, or restart chatapp")


def name_fork(title: str, titles: set[str]) -> str:
    """A fork's title, different from its origin's and other forks'."""
    origin = re.sub(r" \(fork(?: \d+)?\)$", "", title)
    names = (f"{origin} (fork{f' {number}' if number > 1 else ''})" for number in count(1))
    return next(name for name in names if name not in titles)
