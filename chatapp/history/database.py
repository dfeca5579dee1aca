"""The database of conversations: its tables, in numbered migrations, and what its errors mean to the user."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from chatapp.history import HistoryError

APPLICATION = 0x63686174
""""chat" in the file's header, which marks the database as ours."""
PATIENCE = 5.0
"""Seconds that a transaction waits for another process's."""
DAMAGED = "{} is damaged or not a database; it was not changed; move it away, or restore a backup"

KEEP_WORDS = (
    """CREATE TRIGGER words_added AFTER INSERT ON messages BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END""",
    """CREATE TRIGGER words_removed AFTER DELETE ON messages BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    END""",
    """CREATE TRIGGER words_changed AFTER UPDATE OF text ON messages WHEN old.text <> new.text BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END""",
)
"""Triggers that keep the index of words up to date."""
FORGET_TOKENS = """CREATE TRIGGER tokens_removed AFTER DELETE ON messages BEGIN
    DELETE FROM tokens WHERE message = old.id;
END"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (  # 1: a tree of messages; ids are never given twice, because other processes hold them
        """CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('chat', 'completion')),
            model TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            messages INTEGER NOT NULL DEFAULT 0,
            leaf INTEGER,
            deleted REAL
        )""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversations (id),
            parent INTEGER,
            role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
            text TEXT NOT NULL,
            created REAL NOT NULL,
            finished INTEGER NOT NULL,
            finish_reason TEXT,
            model TEXT NOT NULL,
            options TEXT NOT NULL,
            usage TEXT NOT NULL,
            latencies TEXT NOT NULL
        )""",
        "CREATE INDEX messages_by_parent ON messages (conversation, parent)",
        "CREATE INDEX conversations_by_age ON conversations (updated) WHERE deleted IS NULL",
        "CREATE INDEX conversations_deleted ON conversations (deleted) WHERE deleted IS NOT NULL",
        f"PRAGMA application_id = {APPLICATION}",
    ),
    (  # 2: full-text search
        """CREATE VIRTUAL TABLE words USING fts5 (
            text, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', prefix = '3'
        )""",
        *KEEP_WORDS,
        "INSERT INTO words (words) VALUES ('rebuild')",
    ),
    (  # 3: how a conversation is answered, what its user has not sent yet, summaries, and the tokens of replies
        "ALTER TABLE conversations ADD COLUMN setup TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE conversations ADD COLUMN draft TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE messages ADD COLUMN summary TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE tokens (message INTEGER PRIMARY KEY, content BLOB NOT NULL)",
        FORGET_TOKENS,
    ),
    (  # 4: calls of tools, and what they gave: another role, for which the table is made anew
        """CREATE TABLE made_anew (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation INTEGER NOT NULL REFERENCES conversations (id),
            parent INTEGER,
            role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
            text TEXT NOT NULL,
            created REAL NOT NULL,
            finished INTEGER NOT NULL,
            finish_reason TEXT,
            model TEXT NOT NULL,
            options TEXT NOT NULL,
            usage TEXT NOT NULL,
            latencies TEXT NOT NULL,
            summary TEXT NOT NULL DEFAULT '',
            calls TEXT NOT NULL DEFAULT '[]'
        )""",
        """INSERT INTO made_anew SELECT id, conversation, parent, role, text, created, finished, finish_reason, model,
            options, usage, latencies, summary, '[]' FROM messages""",
        "DELETE FROM sqlite_sequence WHERE name = 'made_anew'",
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'made_anew', seq FROM sqlite_sequence WHERE name = 'messages'",
        "DROP TABLE messages",
        "ALTER TABLE made_anew RENAME TO messages",
        "CREATE INDEX messages_by_parent ON messages (conversation, parent)",
        *KEEP_WORDS,
        FORGET_TOKENS,
    ),
    ("ALTER TABLE conversations ADD COLUMN shown REAL NOT NULL DEFAULT 0",),  # 5: when it was left on the screen
    ("ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",),  # 6: listed before all others
)


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the database, creating or migrating it if need be; one that is not ours is left as it is.

    Without a path it is in memory only.
    """
    with translate_errors(path):
        connection = _open(path) if path else _connection(":memory:")
        try:
            connection.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten
            connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: safe when chatapp is killed
            if _version(connection, path) < len(MIGRATIONS):
                _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _connection(target: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target, timeout=PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=64, uri=uri
    )
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # after a disk failure
    return connection


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # private
    except OSError as error:
        if not os.path.isfile(path):  # or its folder is not readable
            raise HistoryError(f"cannot save conversations in {path}: {error.strerror}; check the folder") from error
    if path.is_file() and not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
        # Nobody can be writing: otherwise SQLite would need to make files beside it in order to read.
        return _connection(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    return _connection(str(path))


def _version(connection: sqlite3.Connection, path: Path | None) -> int:
    """The database's version, after checking that it is ours."""
    # One statement, since another process may be creating the tables.
    version, application, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"the conversations in {path} were written by a newer chatapp (version {version} of the database, "
            f"this one knows {len(MIGRATIONS)}); it was not changed; update chatapp"
        )
    if application != APPLICATION and (version or tables):
        raise HistoryError(f"{path} is another program's database; it was not changed; move it away")
    return int(version)


def _migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    """Migrate the tables, whole or not at all, even if two processes begin at once."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        for number in range(_version(connection, path), len(MIGRATIONS)):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Context of a transaction: all is written, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Context in which all reads see one moment, whatever other processes write."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


@contextmanager
def translate_errors(path: Path | None) -> Iterator[None]:
    """Turn SQLite's errors into errors for the user; wrong uses of sqlite3, our own defects, pass."""
    try:
        yield
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError):
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        raise HistoryError(_reason(code, error).format(path or "memory")) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged table in its error
        raise HistoryError(DAMAGED.format(path or "memory")) from error


def _reason(code: int, error: sqlite3.Error) -> str:
    """An error's reason in the user's words, with {} for the file."""
    match code:
        case sqlite3.SQLITE_FULL:
            return "the disk is full: {} cannot grow; earlier conversations are safe; free some space"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "the conversations in {} are read-only; check the permissions of file and folder"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return "another program has locked the conversations in {}; close it, or try again"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return DAMAGED
        case sqlite3.SQLITE_CANTOPEN:
            return "cannot open {}; check the permissions of the folder"
        case sqlite3.SQLITE_IOERR:
            return "the disk failed to read or write {}; check the disk"
        case sqlite3.SQLITE_TOOBIG:
            return "a text is too long for the conversations in {}; the limit is 1 GB"
    if "no such module: fts5" in str(error):
        return "this Python's SQLite has no full-text search (FTS5), so conversations cannot be saved in {}"
    told = " ".join(str(error).split()).replace("{", "{{").replace("}", "}}")
    return f"the tables in {{}} are damaged ({told}); it was not changed; move it away, or restore a backup"
